//! The kernels: true algorithms on real data, each touching memory only through [`crate::memory`].

pub mod antagonist;
pub mod bc;
pub mod bfs;
pub mod btree;
pub mod bwaves;
pub mod cachelib;
pub mod cc;
pub mod cc_sv;
pub mod gpt2;
pub mod graph;
pub mod graph500;
pub mod gups;
pub mod gups_objects;
pub mod liblinear;
pub mod masim;
pub mod npb;
pub mod popularity;
pub mod pr;
pub mod prelude;
pub mod redis;
pub mod seq_chase;
pub mod silo;
pub mod sssp;
pub mod tc;
pub mod xsbench;

use crate::kernel::Kernel;
use crate::memory::{Layout, Mapping, ObjectSpec};

/// All kernels, by family.
pub static KERNELS: &[Kernel] = &[
    Kernel::of::<bc::Bc>(),
    Kernel::of::<pr::Pr>(),
    Kernel::of::<cc::Cc>(),
    Kernel::of::<cc_sv::CcSv>(),
    Kernel::of::<bfs::Bfs>(),
    Kernel::of::<sssp::Sssp>(),
    Kernel::of::<tc::Tc>(),
    Kernel::of::<graph500::Graph500>(),
    Kernel::of::<gups::Gups>(),
    Kernel::of::<gups_objects::GupsObjects>(),
    Kernel::of::<seq_chase::SeqChase>(),
    Kernel::of::<antagonist::Antagonist>(),
    Kernel::of::<masim::Masim>(),
    Kernel::of::<silo::ycsb::Ycsb>(),
    Kernel::of::<silo::tpcc::Tpcc>(),
    Kernel::of::<btree::Btree>(),
    Kernel::of::<redis::Redis>(),
    Kernel::of::<cachelib::Cachelib>(),
    Kernel::of::<xsbench::Xsbench>(),
    Kernel::of::<liblinear::Liblinear>(),
    Kernel::of::<npb::ft::Ft>(),
    Kernel::of::<npb::lu::Lu>(),
    Kernel::of::<npb::sp::Sp>(),
    Kernel::of::<bwaves::Bwaves>(),
    Kernel::of::<gpt2::Gpt2>(),
];

/// The kernel of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}

/// The names of all kernels, in the registry's order.
pub fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|kernel| kernel.name)
}

/// An object of a graph kernel: what it is, and how large it is for a given graph.
#[derive(Debug, Clone, Copy)]
pub struct GraphObject {
    /// Name in profiles.
    pub name: &'static str,
    /// Size of one element in bytes.
    pub element_bytes: u32,
    /// Order of the elements.
    pub layout: Layout,
    /// Whether `Stream` accesses sweep the object in index order.
    pub sweeps: bool,
    /// Whether the graph's construction fills it.
    pub built: bool,
    /// Whether a pass accesses it once for each vertex, rather than once for each edge.
    pub per_vertex: bool,
    /// Size in bytes for a number of vertices and of stored directed edges.
    pub bytes: fn(u64, u64) -> u64,
    /// Bytes for each edge as drawn, duplicates included, beside that.
    pub bytes_per_draw: u64,
}

impl GraphObject {
    /// An object that the run fills, with one element for each vertex in the order of their ids.
    #[must_use]
    pub const fn vertices(name: &'static str, element_bytes: u32, bytes: fn(u64, u64) -> u64) -> Self {
        Self {
            name,
            element_bytes,
            layout: Layout::Vertices,
            sweeps: false,
            built: false,
            per_vertex: false,
            bytes,
            bytes_per_draw: 0,
        }
    }

    /// Size in bytes for a graph of so many vertices and stored edges, built from so many drawn ones.
    #[must_use]
    pub fn size(&self, vertices: u64, edges: u64, draws: u64) -> u64 {
        (self.bytes)(vertices, edges) + self.bytes_per_draw * draws
    }

    /// The object for a graph of this size that keeps no edges as drawn.
    #[must_use]
    pub fn spec(&self, vertices: u64, edges: u64) -> ObjectSpec {
        self.spec_drawn(vertices, edges, 0)
    }

    /// The object for a graph of this size.
    #[must_use]
    pub fn spec_drawn(&self, vertices: u64, edges: u64, draws: u64) -> ObjectSpec {
        ObjectSpec {
            name: self.name,
            bytes: self.size(vertices, edges, draws),
            element_bytes: self.element_bytes,
            layout: self.layout,
            sweeps: self.sweeps,
            built: self.built,
            partitioned: false,
            // The suites allocate each array by itself, and one of any size that matters is a mapping then.
            mapping: Mapping::Own,
            side_by_side: false,
        }
    }
}

/// Sum of the objects for a graph of this size, in bytes.
#[must_use]
pub fn graph_bytes(objects: &[GraphObject], vertices: u64, edges: u64) -> u64 {
    objects.iter().map(|object| (object.bytes)(vertices, edges)).sum()
}
