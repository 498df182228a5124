//! What every kernel of the registry must keep.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};
use tiertune_workload::counter::Counter;
use tiertune_workload::host::Host;
use tiertune_workload::kernels::KERNELS;
use tiertune_workload::{AccessClass, CarrySpec, Kernel, Profile, RecordRequest, Values, plan, record};

/// Declared sizes are expected ones where chance decides; small inputs are off by this much at most.
const SIZE_TOLERANCE: f64 = 0.1;

fn small(kernel: &Kernel) -> Map<String, Json> {
    let json: Json = serde_json::from_str(kernel.small).unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
    json.as_object().unwrap().clone()
}

fn values(kernel: &Kernel) -> Values {
    Values::read(kernel.parameters, &small(kernel)).unwrap_or_else(|error| panic!("{}: {error:?}", kernel.name))
}

fn profile(kernel: &Kernel) -> Profile {
    let mut map = small(kernel);
    map.insert("kernel".to_owned(), kernel.name.into());
    map.insert("llc_bytes".to_owned(), 8192.into());
    record(&RecordRequest::try_from(Json::Object(map)).unwrap()).unwrap()
}

#[test]
fn declarations_are_whole() {
    let names: BTreeSet<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
    assert_eq!(names.len(), KERNELS.len(), "names are unique");
    for kernel in KERNELS {
        let name = kernel.name;
        for text in [kernel.family, kernel.summary, kernel.source, kernel.op_meaning] {
            assert!(!text.is_empty(), "{name}");
        }
        assert!(
            kernel.parameters.iter().any(|parameter| parameter.carried),
            "{name} is never carried"
        );
        for metric in kernel.metrics {
            let same = |other: &&tiertune_workload::kernel::Metric| other.name == metric.name;
            for other in KERNELS.iter().filter_map(|kernel| kernel.metrics.iter().find(same)) {
                assert_eq!(metric, other, "{name}: a name means one thing");
            }
        }
        for parameter in kernel.parameters {
            assert!(!parameter.meaning.is_empty(), "{name}: {}", parameter.name);
            let spelled = |text: &str| parameter.name.ends_with(text);
            let unit = parameter.unit;
            assert_eq!(
                unit == "bytes",
                spelled("_bytes"),
                "{name}: names carry their unit: {}",
                parameter.name
            );
        }
    }
}

#[test]
fn more_work_is_a_longer_run_on_the_same_memory() {
    for kernel in KERNELS {
        let work: Vec<_> = kernel.parameters.iter().filter(|parameter| parameter.work).collect();
        assert!(work.len() <= 1, "{}: one parameter counts the work", kernel.name);
        for parameter in work {
            let values = values(kernel);
            let count = values.int(parameter.name);
            let longer = values.clone().with(parameter.name, 2 * count);
            assert_eq!((kernel.objects)(&values), (kernel.objects)(&longer), "{}", kernel.name);
            let run = |values: &Values| {
                let mut host = Host::new(1);
                (kernel.native)(&mut host, values, false);
                host.timed().1 as f64
            };
            let growth = run(&longer) / run(&values);
            assert!(
                (1.6..=2.4).contains(&growth),
                "{}: {growth} times the operations",
                kernel.name
            );
        }
    }
}

#[test]
fn native_results_are_right_on_any_number_of_threads() {
    for kernel in KERNELS {
        let values = values(kernel);
        (kernel.check)(&values).unwrap();
        for threads in [1, 3] {
            let mut host = Host::new(threads);
            let outcome = (kernel.native)(&mut host, &values, true);
            assert!(!outcome.checks.is_empty(), "{} checks nothing", kernel.name);
            for check in &outcome.checks {
                assert!(check.passed, "{} on {threads} threads: {check:?}", kernel.name);
            }
            let reported: Vec<&str> = outcome.metrics.iter().map(|(name, _)| *name).collect();
            let declared: Vec<&str> = kernel.metrics.iter().map(|metric| metric.name).collect();
            assert_eq!(reported, declared, "{}", kernel.name);
            assert!(
                outcome.metrics.iter().all(|(_, value)| value.is_finite()),
                "{outcome:?}"
            );
            let (seconds, timed) = host.timed();
            assert!(seconds > 0.0 && timed > 0, "{}: no timed operation", kernel.name);
        }
    }
}

#[test]
fn counted_runs_touch_what_is_declared() {
    for kernel in KERNELS {
        let name = kernel.name;
        let values = values(kernel);
        let mut counter = Counter::default();
        let outcome = (kernel.counted)(&mut counter, &values, true);
        assert!(outcome.checks.iter().all(|check| check.passed), "{name}: {outcome:?}");
        let declared = (kernel.objects)(&values);
        let allocated: BTreeSet<&str> = counter.objects().iter().map(|object| object.spec.name).collect();
        let expected: BTreeSet<&str> = declared.iter().map(|object| object.name).collect();
        assert_eq!(allocated, expected, "{name}");
        for spec in &declared {
            let found: u64 = counter
                .objects()
                .iter()
                .filter(|object| object.spec.name == spec.name)
                .map(|object| object.spec.bytes)
                .sum();
            let off = found as f64 / spec.bytes as f64 - 1.0;
            assert!(
                off.abs() < SIZE_TOLERANCE,
                "{name}: {} has {found} bytes, declared {}",
                spec.name,
                spec.bytes
            );
        }
        let mut used = BTreeSet::new();
        for object in counter.objects() {
            let count: u64 = object.loads.iter().chain(&object.stores).sum();
            assert!(count > 0, "{name} never touches {}", object.spec.name);
            for class in AccessClass::ALL {
                if object.loads[class as usize] + object.stores[class as usize] > 0 {
                    used.insert(class);
                }
            }
        }
        assert_eq!(used, kernel.classes.iter().copied().collect(), "{name}: classes");
        assert!(counter.phases().iter().map(|(_, ops)| ops).sum::<u64>() > 0, "{name}");
    }
}

#[test]
fn recordings_are_repeatable_and_keep_what_the_cache_counted() {
    for kernel in KERNELS {
        let name = kernel.name;
        let recorded = profile(kernel);
        assert_eq!(recorded, profile(kernel), "{name}: equal requests");
        let metadata = &recorded.metadata;
        let sum = |column: &[u32]| column.iter().map(|value| u64::from(*value)).sum::<u64>();
        assert_eq!(sum(&recorded.columns.reads), metadata.total_reads, "{name}");
        assert_eq!(sum(&recorded.columns.writebacks), metadata.total_writebacks, "{name}");
        assert!(metadata.total_reads > 0, "{name} fits the cache");
        let slices = &metadata.slices;
        assert!((8..=2000).contains(&slices.len()), "{name}: {} slices", slices.len());
        assert!(slices.iter().all(|slice| slice.cpu_ns_per_op > 0.0), "{name}");
        assert!(
            slices.iter().all(|slice| slice.ops > 0),
            "{name}: a slice without an operation"
        );
        let again = Profile::from_parts(&recorded.metadata_json(), recorded.columns.clone()).unwrap();
        assert_eq!(again, recorded, "{name}: stored and read back");
    }
}

#[test]
fn carried_profiles_have_the_declared_sizes() {
    for kernel in KERNELS {
        let name = kernel.name;
        let recorded = profile(kernel);
        let values = recorded.metadata.request.values().clone();
        for page_bytes in [4096, 2 << 20] {
            let mut spec = CarrySpec::new(page_bytes);
            let mut sizes = Vec::new();
            for parameter in kernel.parameters.iter().filter(|parameter| parameter.carried) {
                let value = values.int(parameter.name);
                let larger = if parameter.name == "scale" {
                    value + 2
                } else {
                    value * 4
                };
                spec = spec.with(parameter.name, larger);
                sizes.push((parameter.name, larger));
            }
            let replay = recorded.carry(&spec).unwrap_or_else(|error| panic!("{name}: {error}"));
            let target = (kernel.resize)(&values, &sizes);
            let declared: u64 = (kernel.objects)(&target).iter().map(|object| object.bytes).sum();
            let off = replay.footprint_bytes() as f64 / declared as f64 - 1.0;
            assert!(
                off.abs() < SIZE_TOLERANCE,
                "{name}: {} against {declared}",
                replay.footprint_bytes()
            );
            let planned = plan(&recorded.metadata.request, &spec, 32 << 20).unwrap();
            assert_eq!(planned.carried_bytes, declared, "{name}");
            assert!(planned.carried_bytes > planned.recorded_bytes, "{name}");
            let mut reads = 0.0;
            for slice in &replay.slices {
                assert!(slice.ops > 0.0 && slice.ops.is_finite(), "{name}: {slice:?}");
                for stream in &slice.streams {
                    let object = &replay.objects[stream.object];
                    assert_eq!(stream.weights.len(), object.bins as usize, "{name}: {}", object.name);
                    let sum: f64 = stream.weights.iter().map(|weight| f64::from(*weight)).sum();
                    assert!((sum - 1.0).abs() < 1e-3, "{name}: {} sums to {sum}", object.name);
                    assert!(
                        stream.weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0),
                        "{name}"
                    );
                    assert!((0.0..=1.0).contains(&stream.prefetched_share), "{name}");
                    reads += stream.reads_per_op * slice.ops;
                }
            }
            assert!(
                reads > 1.5 * recorded.metadata.total_reads as f64,
                "{name}: work grows with the input"
            );
        }
    }
}
