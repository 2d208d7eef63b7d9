/* agent/command: The command of a stage: its environment, its secrets, and the conversation with pl-runner.
 *
 * In:      A datum and its stage.
 * Out:     Exit status, output with secrets removed.
 * Uses:    agent/sandbox, net/agent_protocol, nvml, policy, sandbox_view, spec, text, storage/{base, system}
 * Threads: The compute thread of the worker.
 *
 * Headers for other rooms:
 *   batch_command     a command that stays alive for all datums
 *   command_env       environment of a command
 *   gpu_sampler       GPU utilization while a command runs
 *   output_folder     the folder that commands write to, kept open
 *   runner_client     starts and drives pl-runner
 *
 * Inside:
 *   batch_server      unix socket where a batch command asks for the next datum
 *   secret_redaction  removes secret values from output
 *   stage_secrets     secrets given to a command
 *   unix_socket       unix socket with a long path */
#pragma once
