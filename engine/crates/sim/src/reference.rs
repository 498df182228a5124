//! placeholder
use crate::{driver::RunResult, error::RunError, scenario::Request, workload::Workload};
/// x
pub fn run(_w: &Workload, _r: &Request) -> Result<RunResult, RunError> { Err(RunError::Workload("no".into())) }
