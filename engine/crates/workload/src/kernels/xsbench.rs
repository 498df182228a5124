//! Lookups of macroscopic cross sections on a unionised energy grid, as XSBench does them.

use super::prelude::*;

/// Cross-section lookups.
#[derive(Debug)]
pub struct Xsbench;

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost -- xsbench` and 4 (small: 16) grid points,
// per lookup of 55 (small: 15) nuclides in the mean.
const LOOKUP_LARGE_NS: f64 = 373.0;
const LOOKUP_SMALL_NS: f64 = 128.0;

/// Energy and five cross sections.
const POINT: usize = 6;
const REACTIONS: usize = POINT - 1;
const CHUNK: usize = 512;
const DOMAIN: u64 = 0x7873_6265;

/// Shares of the reactor's volume by material. The original adds them up from the second on, so fuel gets what is left:
/// 0.139 (cladding, cold and hot water, vessel, five reflectors and plates, two ends of assemblies).
const VOLUMES: [f64; 11] = [
    0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.013,
];

/// Groups of nuclides that materials share, with their number in the Hoogenboom-Martin reactor.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Group {
    /// Only in fuel: 319 in the large model, 32 in the small one.
    Fuel,
    /// In water, of which one is in fuel too.
    Water,
    WaterAndFuel,
    Cladding,
    /// Steel in the vessel, reflectors and plates; in the vessel alone; in vessel and fuel.
    Steel,
    Vessel,
    VesselAndFuel,
}

const GROUPS: [Group; 7] = [
    Group::Fuel,
    Group::Water,
    Group::WaterAndFuel,
    Group::Cladding,
    Group::Steel,
    Group::Vessel,
    Group::VesselAndFuel,
];

fn size(group: Group, large: bool) -> u32 {
    match group {
        Group::Fuel => {
            if large {
                319
            } else {
                32
            }
        }
        Group::Water => 3,
        Group::WaterAndFuel | Group::VesselAndFuel => 1,
        Group::Cladding => 5,
        Group::Steel => 17,
        Group::Vessel => 9,
    }
}

/// Groups of each material: fuel, then in the order of [`VOLUMES`].
fn composition(material: usize) -> &'static [Group] {
    match material {
        0 => &[Group::Fuel, Group::WaterAndFuel, Group::VesselAndFuel],
        1 => &[Group::Cladding],
        2 | 3 => &[Group::Water, Group::WaterAndFuel],
        4 => &[Group::Steel, Group::Vessel, Group::VesselAndFuel],
        5..=9 => &[Group::Water, Group::WaterAndFuel, Group::Steel],
        _ => &[Group::Water, Group::WaterAndFuel, Group::Cladding],
    }
}

fn is_large(values: &Values) -> bool {
    values.word("model") == "large"
}

/// Nuclides of the model: 355 or 68.
#[must_use]
pub fn nuclides(large: bool) -> u64 {
    GROUPS.iter().map(|group| u64::from(size(*group, large))).sum()
}

/// The nuclides of each of the twelve materials. Fuel comes last, as most of it does in the original.
#[must_use]
pub fn materials(large: bool) -> Vec<Vec<u32>> {
    let start = |group: Group| -> u32 {
        let order = [1, 2, 3, 4, 5, 6, 0].map(|place| GROUPS[place]);
        order
            .iter()
            .take_while(|known| **known != group)
            .map(|known| size(*known, large))
            .sum()
    };
    (0..=VOLUMES.len())
        .map(|material| {
            composition(material)
                .iter()
                .flat_map(|group| start(*group)..start(*group) + size(*group, large))
                .collect()
        })
        .collect()
}

/// Probability of each material: fuel, then the others.
#[must_use]
pub fn probabilities() -> Vec<f64> {
    let others: f64 = VOLUMES.iter().sum();
    std::iter::once(1.0 - others).chain(VOLUMES).collect()
}

fn pick_material(rng: &mut CounterRng) -> usize {
    let draw = rng.next_f64();
    let mut sum = 0.0;
    for (number, share) in VOLUMES.iter().enumerate() {
        sum += share;
        if draw < sum {
            return number + 1;
        }
    }
    0
}

/// The grids of a run and what it found.
#[derive(Debug)]
pub struct Grids {
    nuclides: Array<f64>,
    energies: Array<f64>,
    index: Array<u32>,
    points: usize,
    checksum: u64,
    lookups: u64,
    nuclides_read: u64,
}

impl Grids {
    fn build<M: Memory>(memory: &mut M, values: &Values) -> Self {
        let specs = Xsbench::objects(values);
        let (count, points) = (nuclides(is_large(values)) as usize, values.int("gridpoints") as usize);
        let mut rng = CounterRng::new(values.int("seed"), &[DOMAIN]);
        let mut grid = vec![0.0; count * points * POINT];
        for nuclide in grid.chunks_exact_mut(points * POINT) {
            let mut energies: Vec<f64> = (0..points).map(|_| rng.next_f64()).collect();
            energies.sort_by(f64::total_cmp);
            for (point, energy) in nuclide.chunks_exact_mut(POINT).zip(energies) {
                point[0] = energy;
                point[1..].fill_with(|| rng.next_f64());
            }
        }
        let mut union: Vec<f64> = grid.iter().step_by(POINT).copied().collect();
        union.sort_by(f64::total_cmp);
        let mut index = vec![0u32; union.len() * count];
        let mut at = vec![0u32; count];
        for (energy, row) in union.iter().zip(index.chunks_exact_mut(count)) {
            for (nuclide, place) in at.iter_mut().enumerate() {
                // The last point below each energy, kept one off the end for the interpolation.
                while (*place as usize) < points - 2
                    && grid[(nuclide * points + *place as usize + 1) * POINT] <= *energy
                {
                    *place += 1;
                }
            }
            row.copy_from_slice(&at);
        }
        Self {
            nuclides: Array::new(memory, &specs[0], grid),
            energies: Array::new(memory, &specs[1], union),
            index: Array::new(memory, &specs[2], index),
            points,
            checksum: 0,
            lookups: 0,
            nuclides_read: 0,
        }
    }

    /// Adds a nuclide's cross sections at an energy, interpolated from a point and the next one.
    fn add(&self, sums: &mut [f64; REACTIONS], nuclide: usize, place: usize, energy: f64) {
        let first = (nuclide * self.points + place) * POINT;
        let points = &self.nuclides.data()[first..first + 2 * POINT];
        let part = (points[POINT] - energy) / (points[POINT] - points[0]);
        for (reaction, sum) in sums.iter_mut().enumerate() {
            let (low, high) = (points[1 + reaction], points[POINT + 1 + reaction]);
            *sum += high - part * (high - low);
        }
    }

    fn lookup<M: Memory>(&self, memory: &mut M, energy: f64, material: &[u32]) -> [f64; REACTIONS] {
        let (mut low, mut high) = (0, self.energies.data().len());
        while high - low > 1 {
            let middle = (low + high) / 2;
            if self.energies.load(memory, middle, AccessClass::Chase) > energy {
                high = middle;
            } else {
                low = middle;
            }
        }
        let width = self.index.data().len() / self.energies.data().len();
        let mut sums = [0.0; REACTIONS];
        for nuclide in material {
            let nuclide = *nuclide as usize;
            let place = self.index.load(memory, low * width + nuclide, AccessClass::Random) as usize;
            let first = (nuclide * self.points + place) * POINT * 8;
            memory.load_lines(self.nuclides.id(), first, 2 * POINT * 8, AccessClass::Random);
            self.add(&mut sums, nuclide, place, energy);
        }
        sums
    }

    /// The same by looking for the energy in each nuclide's own grid.
    fn reference(&self, energy: f64, material: &[u32]) -> [f64; REACTIONS] {
        let mut sums = [0.0; REACTIONS];
        for nuclide in material {
            let nuclide = *nuclide as usize;
            let grid = &self.nuclides.data()[nuclide * self.points * POINT..][..self.points * POINT];
            // The unionised grid's point at or below the energy decides, as in the original.
            let floor = self.energies.data().partition_point(|known| *known <= energy).max(1) - 1;
            let floor = self.energies.data()[floor];
            let below = grid.iter().step_by(POINT).filter(|known| **known <= floor).count();
            let place = below.saturating_sub(1).min(self.points - 2);
            self.add(&mut sums, nuclide, place, energy);
        }
        sums
    }
}

/// The original's checksum: which reaction is the most likely, summed over all lookups.
fn likeliest(sums: &[f64; REACTIONS]) -> u64 {
    let mut best = 0;
    for reaction in 1..REACTIONS {
        if sums[reaction] > sums[best] {
            best = reaction;
        }
    }
    best as u64 + 1
}

/// The lookups of a chunk: energy and material, always the same for its first lookup.
fn draws(seed: u64, start: usize) -> impl FnMut() -> (f64, usize) {
    let mut rng = CounterRng::new(seed, &[DOMAIN, 1, start as u64]);
    move || (rng.next_f64(), pick_material(&mut rng))
}

impl Program for Xsbench {
    const NAME: &'static str = "xsbench";
    const FAMILY: &'static str = "xsbench";
    const SUMMARY: &'static str = "lookups of cross sections on a unionised energy grid";
    const SOURCE: &'static str = "XSBench (Tramm et al., PHYSOR'14), unionised grid, event mode";
    const OP_MEANING: &'static str = "one lookup of all nuclides of a material";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::word("model", "a reactor model", &["small", "large"], "68 or 355 nuclides")
            .or(Default::Word("large")),
        Parameter::int("gridpoints", 4, 1 << 32, "grid points of a nuclide").carried(),
        Parameter::int("lookups", 1, 1 << 44, "lookups of all threads together").work(),
        Parameter::int("seed", 0, u64::MAX, "seed of grids and lookups").or(Default::Int(1)),
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Chase, AccessClass::Random];
    const METRICS: &'static [Metric] = &[Metric {
        name: "nuclides_per_lookup",
        unit: "",
        role: Role::Covariate,
        meaning: "nuclides read by a lookup in the mean",
    }];
    const SMALL: &'static str = r#"{"model": "small", "gridpoints": 200, "lookups": 30000}"#;

    type Output = Grids;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let (count, points) = (nuclides(is_large(values)), values.int("gridpoints"));
        let rows = count * points;
        vec![
            ObjectSpec::new("nuclide grids", rows * POINT as u64 * 8, POINT as u32 * 8).built(),
            ObjectSpec::new("energies", rows * 8, 8).built(),
            ObjectSpec::new("index grid", rows * count * 4, 4).built(),
        ]
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> Grids {
        let mut grids = Grids::build(memory, values);
        let large = is_large(values);
        let materials = materials(large);
        let cost = if large { LOOKUP_LARGE_NS } else { LOOKUP_SMALL_NS };
        memory.phase(Phase::new("lookup", Unit::Operations, cost).stationary());
        let (checksum, read) = (AtomicU64::new(0), AtomicU64::new(0));
        let (seed, shared) = (values.int("seed"), &grids);
        memory.for_chunks(0..values.int("lookups") as usize, CHUNK, |memory, part| {
            let mut draw = draws(seed, part.start);
            let (mut sum, mut count) = (0, 0);
            for _ in part {
                let (energy, material) = draw();
                sum += likeliest(&shared.lookup(memory, energy, &materials[material]));
                count += materials[material].len() as u64;
                memory.ops(1);
            }
            checksum.fetch_add(sum, Relaxed);
            read.fetch_add(count, Relaxed);
        });
        grids.checksum = checksum.into_inner();
        grids.nuclides_read = read.into_inner();
        grids.lookups = values.int("lookups");
        grids
    }

    fn report(_values: &Values, grids: &Grids) -> Vec<(&'static str, f64)> {
        vec![("nuclides_per_lookup", grids.nuclides_read as f64 / grids.lookups as f64)]
    }

    fn verify(values: &Values, grids: &Grids) -> Vec<Check> {
        let materials = materials(is_large(values));
        let (mut compared, mut wrong) = (0, 0);
        let quiet = &mut crate::memory::Native;
        for start in (0..grids.lookups as usize).step_by(CHUNK).take(200) {
            let (energy, material) = draws(values.int("seed"), start)();
            let found = grids.lookup(quiet, energy, &materials[material]);
            compared += 1;
            wrong += u64::from(found != grids.reference(energy, &materials[material]));
        }
        let lookups = grids.lookups;
        vec![
            Check::new(
                "cross sections",
                wrong == 0,
                format!("{wrong} of {compared} differ from a search in each nuclide's grid"),
            ),
            Check::new(
                "checksum",
                (lookups..=lookups * REACTIONS as u64).contains(&grids.checksum),
                format!("{} from {lookups} lookups", grids.checksum),
            ),
        ]
    }

    fn ops(values: &Values) -> u64 {
        values.int("lookups")
    }

    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        let target = sizes
            .iter()
            .fold(recorded.clone(), |values, (name, value)| values.with(name, *value));
        let growth = target.int("gridpoints") as f64 / recorded.int("gridpoints") as f64;
        target.with("lookups", (recorded.int("lookups") as f64 * growth) as u64)
    }
}
