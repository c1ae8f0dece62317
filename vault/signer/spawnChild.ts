import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Compiled, this module and the child are .js; run from source, both are .ts. */
const program = fileURLToPath(new URL(`./signer.child${extname(import.meta.url)}`, import.meta.url))
const shell = '/bin/sh'

/**
 * Starts the process that signs, with as little as it needs: an empty environment, no debugger by signal, and Node's
 * permission model without writing, processes and (from Node 25) the network.
 *
 * Node can not set limits of its own process, so a shell forbids core dumps and becomes Node (exec, same pid). Where
 * there is no /bin/sh, core dumps are the system's to forbid. A debugger of the same user can read any process unless
 * the system says otherwise (`kernel.yama.ptrace_scope`).
 */
export function spawnChild(): ChildProcess {
  const flags = ['--disable-sigusr1', '--permission'].filter((flag) =>
    process.allowedNodeEnvironmentFlags.has(flag),
  )
  const allowed = flags.includes('--permission') ? ['--allow-fs-read=*', '--allow-addons'] : []
  const args = [...flags, ...allowed, '--no-warnings', program]
  const { SYSTEMROOT } = process.env
  const options = {
    stdio: ['pipe', 'pipe', 'ignore'] as ['pipe', 'pipe', 'ignore'],
    env: SYSTEMROOT === undefined ? {} : { SYSTEMROOT },
    windowsHide: true,
  }
  if (!existsSync(shell)) return spawn(process.execPath, args, options)
  // What preloads code into every Node (a profiler, a test runner) puts NODE_OPTIONS into each child, past an empty env.
  return spawn(
    shell,
    ['-c', 'ulimit -c 0; unset NODE_OPTIONS; exec "$0" "$@"', process.execPath, ...args],
    options,
  )
}
