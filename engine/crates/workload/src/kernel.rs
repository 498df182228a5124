//! What a kernel declares, and how the rest of the engine reaches it: see `engine/README.md` for how to add one.

use crate::carry::{CarryError, CarrySpec, Loading, Replay, stretch};
use crate::class::AccessClass;
use crate::counter::Counter;
use crate::host::Host;
use crate::kernels::GraphObject;
use crate::memory::{Memory, ObjectSpec};
use crate::parameter::{Parameter, ParameterError, Values};
use crate::profile::{Profile, SliceInfo};
use crate::record::{RecordRequest, record_plain};

/// What a figure is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Told beside others, which it may explain; no better or worse.
    Covariate,
    /// Counts what is wrong with the result: anything but 0 is no measurement.
    Validity,
}

/// A figure that a kernel finds out beside run time and throughput, which all have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name, with its unit where it has one.
    pub name: &'static str,
    /// Unit, empty for plain counts.
    pub unit: &'static str,
    /// What it is for.
    pub role: Role,
    /// One line on what it means.
    pub meaning: &'static str,
}

/// Whether a result is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was compared.
    pub name: &'static str,
    /// Whether it holds.
    pub passed: bool,
    /// The figures on both sides.
    pub detail: String,
}

impl Check {
    /// A check with its figures.
    #[must_use]
    pub fn new(name: &'static str, passed: bool, detail: String) -> Self {
        Self { name, passed, detail }
    }
}

/// What a run found out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The declared metrics.
    pub metrics: Vec<(&'static str, f64)>,
    /// The checks, if they were asked for.
    pub checks: Vec<Check>,
}

/// A kernel: a true algorithm on real data, written once against [`Memory`].
pub trait Program {
    /// Name in files and on command lines.
    const NAME: &'static str;
    /// The program or suite that it is like.
    const FAMILY: &'static str;
    /// One line on what it does.
    const SUMMARY: &'static str;
    /// Paper or program that it follows.
    const SOURCE: &'static str;
    /// What one operation is.
    const OP_MEANING: &'static str;
    /// Parameters; a kernel that depends on the number of threads declares `threads`.
    const PARAMETERS: &'static [Parameter];
    /// Access classes that it uses.
    const CLASSES: &'static [AccessClass];
    /// Metrics beside run time and throughput.
    const METRICS: &'static [Metric] = &[];
    /// Parameters, as JSON, of a run of well under a second; the contract suite goes by them.
    const SMALL: &'static str;
    /// The objects, for a kernel on a graph.
    const GRAPH: Option<&'static GraphTraits> = None;

    /// What a run computes.
    type Output;

    /// The objects at these parameters, also at sizes that fit no machine here; expected sizes where chance decides.
    fn objects(values: &Values) -> Vec<ObjectSpec>;

    /// Runs on `memory`; allocates every object of [`Program::objects`] under the same name.
    fn run<M: Memory>(memory: &mut M, values: &Values) -> Self::Output;

    /// The declared metrics of a result.
    fn report(_values: &Values, _output: &Self::Output) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Compares a result with a plain reference or with what must hold of it.
    fn verify(values: &Values, output: &Self::Output) -> Vec<Check>;

    /// Whether the parameters go together.
    ///
    /// # Errors
    /// With the parameter that does not go with the others.
    fn check(_values: &Values) -> Result<(), ParameterError> {
        Ok(())
    }

    /// Whether a recording of this size fits the machines on which tests run.
    ///
    /// # Errors
    /// With the parameter that is too large.
    fn check_recording(values: &Values) -> Result<(), ParameterError> {
        crate::record::check_footprint(Self::PARAMETERS, values, &Self::objects(values))
    }

    /// Operations of a run, all phases together, about: a recording is cut into 64 slices of this.
    fn ops(values: &Values) -> u64;

    /// Executes under the recorder.
    fn record(request: &RecordRequest) -> Profile
    where
        Self: Sized,
    {
        record_plain::<Self>(request)
    }

    /// The parameters of the replayed run, from those recorded and the sizes asked for.
    fn resize(recorded: &Values, sizes: &[(&str, u64)]) -> Values {
        sizes
            .iter()
            .fold(recorded.clone(), |values, (name, value)| values.with(name, *value))
    }

    /// By what the operations of a recorded slice grow; if not said otherwise, with the footprint.
    fn work_growth(recorded: &Values, target: &Values, _slice: &SliceInfo) -> f64 {
        let bytes = |values: &Values| {
            Self::objects(values)
                .iter()
                .map(|object| object.bytes as f64)
                .sum::<f64>()
        };
        bytes(target) / bytes(recorded)
    }

    /// By what the reads and write-backs of one operation on an object grow; if not said otherwise, they stay, because the
    /// last-level cache is scaled with the footprint.
    fn traffic_growth(_recorded: &Values, _target: &Values, _object: &str, _class: AccessClass) -> f64 {
        1.0
    }

    /// By what the squared variation between single elements of an object grows (layouts `vertices` and `lists`).
    fn skew_growth(_recorded: &Values, _target: &Values, _object: &str) -> f64 {
        1.0
    }

    /// Carries a profile to a larger input.
    ///
    /// # Errors
    /// When the sizes asked for cannot be replayed.
    fn carry(profile: &Profile, spec: &CarrySpec) -> Result<Replay, CarryError>
    where
        Self: Sized,
    {
        stretch::carry::<Self>(profile, spec)
    }
}

/// What carrying needs to know of a kernel on a graph.
#[derive(Debug)]
pub struct GraphTraits {
    /// The objects.
    pub objects: &'static [GraphObject],
    /// Kinds of phases ("forward" is that of "forward 3") in which each edge gathers one entry of an array: so that
    /// vertices are accessed as often as they have edges.
    pub gathered: &'static [(&'static str, &'static str)],
    /// Objects that are never there at the same time, as the run allocates one when it has freed the other.
    pub in_turn: &'static [(&'static str, &'static str)],
    /// Whether the run goes by levels from a source, whose shares depend on the size of a uniform graph.
    pub levels: bool,
    /// The kind of phases in which each edge that leads one level further stores once into an array, and that array.
    pub successors: Option<(&'static str, &'static str)>,
}

/// A kernel as the registry holds it: what [`Program`] declares, without the type.
#[derive(Debug)]
pub struct Kernel {
    /// Name in files and on command lines.
    pub name: &'static str,
    /// The program or suite that it is like.
    pub family: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// Paper or program that it follows.
    pub source: &'static str,
    /// What one operation is.
    pub op_meaning: &'static str,
    /// Parameters.
    pub parameters: &'static [Parameter],
    /// Access classes that it uses.
    pub classes: &'static [AccessClass],
    /// Metrics beside run time and throughput.
    pub metrics: &'static [Metric],
    /// Parameters, as JSON, of a run of well under a second.
    pub small: &'static str,
    /// Set for kernels on graphs.
    pub graph: Option<&'static GraphTraits>,
    /// See [`Program::objects`].
    pub objects: fn(&Values) -> Vec<ObjectSpec>,
    /// See [`Program::check`].
    pub check: fn(&Values) -> Result<(), ParameterError>,
    /// See [`Program::check_recording`].
    pub check_recording: fn(&Values) -> Result<(), ParameterError>,
    /// See [`Program::resize`].
    pub resize: fn(&Values, &[(&str, u64)]) -> Values,
    /// Runs natively; checks the result if asked to.
    pub native: fn(&mut Host, &Values, bool) -> Outcome,
    /// Runs and counts accesses; checks the result if asked to.
    pub counted: fn(&mut Counter, &Values, bool) -> Outcome,
    /// See [`Program::record`].
    pub record: fn(&RecordRequest) -> Profile,
    /// See [`Program::carry`].
    pub carry: fn(&Profile, &CarrySpec) -> Result<Replay, CarryError>,
}

impl Kernel {
    /// The most bytes of its objects that are there at a time.
    #[must_use]
    pub fn footprint_bytes(&self, values: &Values) -> u64 {
        let objects = (self.objects)(values);
        let named = |name: &str| objects.iter().find(|object| object.name == name).map_or(0, |o| o.bytes);
        let in_turn = self.graph.map_or(&[][..], |traits| traits.in_turn);
        let apart: u64 = in_turn.iter().map(|(one, other)| named(one).min(named(other))).sum();
        objects.iter().map(|object| object.bytes).sum::<u64>() - apart
    }

    /// The registry's entry for a program.
    #[must_use]
    pub const fn of<P: Program>() -> Self {
        Self {
            name: P::NAME,
            family: P::FAMILY,
            summary: P::SUMMARY,
            source: P::SOURCE,
            op_meaning: P::OP_MEANING,
            parameters: P::PARAMETERS,
            classes: P::CLASSES,
            metrics: P::METRICS,
            small: P::SMALL,
            graph: P::GRAPH,
            objects: P::objects,
            check: P::check,
            check_recording: P::check_recording,
            resize: P::resize,
            native: outcome::<P, Host>,
            counted: outcome::<P, Counter>,
            record: P::record,
            carry: P::carry,
        }
    }

    /// Whether a recording may be carried to another value of this parameter.
    #[must_use]
    pub fn carries(&self, name: &str) -> bool {
        self.parameters
            .iter()
            .any(|parameter| parameter.carried && parameter.name == name)
    }

    /// The declaration as JSON, for other parts of the project.
    #[must_use]
    pub fn document(&self) -> serde_json::Value {
        let metrics: Vec<_> = self
            .metrics
            .iter()
            .map(|metric| {
                serde_json::json!({
                    "name": metric.name, "unit": metric.unit, "role": metric.role, "meaning": metric.meaning,
                })
            })
            .collect();
        let parameters: Vec<_> = self.parameters.iter().map(Parameter::document).collect();
        serde_json::json!({
            "name": self.name, "family": self.family, "summary": self.summary, "source": self.source,
            "operation": self.op_meaning, "classes": self.classes, "parameters": parameters, "metrics": metrics,
            "loadings": Loading::document(self),
        })
    }
}

fn outcome<P: Program, M: Memory>(memory: &mut M, values: &Values, verify: bool) -> Outcome {
    let output = P::run(memory, values);
    memory.end();
    Outcome {
        metrics: P::report(values, &output),
        checks: if verify { P::verify(values, &output) } else { Vec::new() },
    }
}
