//! The scripts for Ray: a job on several nodes that starts its own Ray, or a Ray on this machine.

use crate::batches::Batch;
use crate::directive;
use crate::error::EmitError;
use crate::explain::ExplainRow;
use crate::job_directives::ray_directives;
use crate::job_settings::JobSettings;
use crate::job_size::JobSize;
use crate::required_tool::RequiredTool;
use crate::scripts::{DIRECTIVES, SETTINGS, Script, assign, concat, fill_template};
use crate::targets::JobTarget;
use crate::targets::driver::{self, WorkerPlace};
use crate::targets::single_machine::with_control_scripts;
use crate::targets::unused_flags::{
    BATCH_FLAGS, CPU_BIND, DASK_FLAGS, JOB_NAME, NTASKS_PER_NODE, QUEUE_FLAGS, RAY_FLAGS,
    SLURM_FLAGS,
};
use crate::task_plan::TaskPlan;

/// A job on several nodes that starts its own Ray.
pub struct Ray;

impl JobTarget for Ray {
    fn name(&self) -> &'static str {
        "ray"
    }

    fn help(&self) -> &'static str {
        "One SLURM job on several nodes that starts Ray, and a driver that hands out the tasks"
    }

    fn uses_slurm(&self) -> bool {
        true
    }

    fn on_this_machine(&self) -> Option<&'static dyn JobTarget> {
        Some(&LocalRay)
    }

    fn batches(&self, _: &JobSettings, _: &TaskPlan) -> Result<Option<Vec<Batch>>, EmitError> {
        Ok(None)
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        [DASK_FLAGS, &[NTASKS_PER_NODE, CPU_BIND, "gather_partition"]].concat()
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let directives = directive::format_directives(&ray_directives(job)?, &job.slurm.directive)?;
        let settings = concat(&[
            &job.setup_lines(),
            "# The Python that has Ray, and the CPUs and GPUs that Ray uses of each node.\n"
                .as_ref(),
            &assign("python", &job.python),
            &assign("cpus", job.size.cpus().to_string()),
            &assign("gpus", job.size.gpus.to_string()),
            "# Seconds in which Ray has to start on a node.\n".as_ref(),
            &assign("node_seconds", job.node_seconds.to_string()),
        ]);
        let texts = [(DIRECTIVES, &*directives), (SETTINGS, &settings)];
        let engines = job.size.workers * job.size.engines;
        let sizes = format!(
            "NODES = {}\nMIN_NODES = {}\nNODE_SECONDS = {}\nENGINES = {engines}\nTHREADS = {}\n",
            job.size.workers, job.min_nodes, job.node_seconds, job.size.threads
        );
        let mut scripts = driver::plan_scripts(job, WorkerPlace::Nodes);
        scripts.extend([
            driver_script(job, &sizes, "{}"),
            Script::new_bash("ray.sbatch", fill_template(include_str!("ray/ray.sbatch"), &texts)),
        ]);
        scripts.extend(driver::control_scripts(job, "ray.sbatch"));
        Ok(scripts)
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![RequiredTool::PythonModule("ray")]
    }

    fn check_node(&self, job: &JobSettings, node_cpus: u64) -> Result<(), EmitError> {
        let job_cpus = job.size.cpus();
        if job_cpus > node_cpus {
            Err(EmitError::LargerThanNode { job_cpus, node_cpus })
        } else {
            Ok(())
        }
    }

    fn explain(&self, job: &JobSettings, _: usize) -> Result<Vec<ExplainRow>, EmitError> {
        let size = &job.size;
        let mut rows = vec![ExplainRow::new_heading("ray.sbatch")];
        rows.extend(ray_directives(job)?.iter().map(ExplainRow::from_directive));
        let share = gpu_share(job);
        rows.extend([
            ExplainRow::new(
                "--min-nodes",
                format!("MIN_NODES = {}", job.min_nodes),
                "fewest nodes to go on with",
            ),
            ExplainRow::new(
                "--node-seconds",
                format!("NODE_SECONDS = {}", job.node_seconds),
                "for Ray to start on a node",
            ),
            ExplainRow::new(
                "--cores-per-worker",
                format!("ray start --num-cpus {}", size.cpus()),
                "CPUs of a node",
            ),
            ExplainRow::new(
                "--gres",
                format!("ray start --num-gpus {}", size.gpus),
                "GPUs of a node",
            ),
            ExplainRow::new(
                "--cores-per-worker",
                format!("@ray.remote(num_cpus={})", size.threads),
                "threads of an engine",
            ),
            ExplainRow::new(
                "--ai-engines-per-worker",
                format!("@ray.remote(num_gpus={share})"),
                "GPU share of an engine",
            ),
        ]);
        Ok(rows)
    }

    fn ai_integrate_arguments(&self, job: &JobSettings, size: &JobSize) -> Vec<String> {
        job.engine_arguments(size)
    }
}

/// A Ray on this machine. Its sizes come from `submit`, which knows the CPUs of the machine.
pub struct LocalRay;

impl JobTarget for LocalRay {
    fn name(&self) -> &'static str {
        "ray"
    }

    fn help(&self) -> &'static str {
        "Ray on this machine"
    }

    fn batches(&self, _: &JobSettings, _: &TaskPlan) -> Result<Option<Vec<Batch>>, EmitError> {
        Ok(None)
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        let all =
            [DASK_FLAGS, RAY_FLAGS, QUEUE_FLAGS, SLURM_FLAGS, BATCH_FLAGS, &[JOB_NAME]].concat();
        // The GPUs are those that Ray divides.
        all.into_iter().filter(|flag| !["gres", "gpus", "gpus_per_task"].contains(flag)).collect()
    }

    fn scripts(
        &self,
        job: &JobSettings,
        _: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let engines = job.size.workers * job.size.engines;
        let sizes = format!(
            "NODES = MIN_NODES = 1\nNODE_SECONDS = 60\nENGINES = int(os.environ.get(\"AZPIPE_ENGINES\", \"{engines}\"))\n\
             THREADS = int(os.environ.get(\"AZPIPE_THREADS\", \"{}\"))\n",
            job.size.threads
        );
        let gpus = job.size.workers * job.size.gpus;
        let ray = format!(
            "{{\"address\": \"local\", \"num_cpus\": ENGINES * THREADS, \"num_gpus\": {gpus}, \"include_dashboard\": False}}"
        );
        let mut scripts = driver::plan_scripts(job, WorkerPlace::ThisMachine);
        scripts.extend([
            driver_script(job, &sizes, &ray),
            driver::submit_script_for_this_machine(job),
        ]);
        Ok(with_control_scripts(job, "1", scripts))
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![RequiredTool::PythonModule("ray")]
    }

    fn ai_integrate_arguments(&self, job: &JobSettings, size: &JobSize) -> Vec<String> {
        job.engine_arguments(size)
    }
}

fn driver_script(job: &JobSettings, sizes: &str, ray: &str) -> Script {
    let settings = format!(
        "\n{sizes}ENGINE = {{\"num_cpus\": THREADS, \"num_gpus\": {}}}\nRAY = {ray}\n",
        gpu_share(job)
    );
    Script::new_source(
        "driver.py",
        fill_template(include_str!("ray/driver.py"), &[(SETTINGS, settings.as_ref())]),
    )
}

/// Returns the share of a GPU that an engine has, rounded down so that all engines fit: Ray counts
/// ten thousandths.
fn gpu_share(job: &JobSettings) -> f64 {
    let share = job.size.gpus as f64 / job.size.engines as f64;
    if share >= 1.0 { share.floor() } else { (share * 1e4).floor() / 1e4 }
}
