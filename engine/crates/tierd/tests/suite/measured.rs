//! Counters of hardware in place of those made of samples.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use tierd::counters::Measured;
use tiertune_host::perf::requests::{Counted, Requests};

use crate::fake::{BITS, Fake, MS, driver, knobs, options};

/// Slow memory is faster than fast memory, which no configured latency says.
#[derive(Default)]
struct Contended {
    broken: bool,
    readings: Rc<Cell<u32>>,
}

impl Measured for Contended {
    fn more(&mut self) -> io::Result<Counted> {
        if self.broken {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        self.readings.set(self.readings.get() + 1);
        let at = |latency_ns: f64| Requests {
            inserts: 1e5,
            occupancy_ns: 1e5 * latency_ns,
            busy_ns: 1e6,
        };
        Ok(Counted {
            tiers: [at(400.0), at(300.0)],
            ..Counted::default()
        })
    }
}

fn world() -> Fake {
    let world = Fake::default();
    let pid = world.world().spawn();
    let start = world.world().map(pid, 512, 0);
    world.world().touch(pid, start..start + 512);
    world
}

#[test]
fn a_policy_sees_the_latencies_that_are_measured() {
    let (world, measured) = (world(), Contended::default());
    let readings = measured.readings.clone();
    let system = "colloid+hemem";
    let mut driver =
        driver(system, &knobs(system), &world, options(4096, 256, 8192), BITS).with_counters(Box::new(measured));
    while world.world().now_ns < 5_000 * MS {
        driver.turn().expect("nothing fails");
    }
    assert!(readings.get() > 50);
    let gauge = |name: &str| {
        let found = driver.gauges().into_iter().find(|gauge| gauge.name == name);
        found.expect("it is told").value
    };
    assert!(
        (gauge("colloid_fast_ns") - 400.0).abs() < 1.0,
        "{}",
        gauge("colloid_fast_ns")
    );
    assert!((gauge("colloid_slow_ns") - 300.0).abs() < 1.0);
    assert!((gauge("colloid_fast_share") - 0.5).abs() < 0.01);
}

#[test]
fn counters_that_can_no_longer_be_read_end_the_run() {
    let world = world();
    let broken = Contended {
        broken: true,
        ..Contended::default()
    };
    let mut driver =
        driver("pact", &knobs("pact"), &world, options(4096, 256, 8192), BITS).with_counters(Box::new(broken));
    let error = (0..100).find_map(|_| driver.turn().err()).expect("it is told");
    assert!(
        error.to_string().starts_with("the counters of requests to memory: "),
        "{error}"
    );
}
