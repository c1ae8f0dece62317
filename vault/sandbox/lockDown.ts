import { registerHooks } from 'node:module'
import os from 'node:os'

/**
 * Modules of Node that reach past its permission model (databases open any file, by their own way), or that a plugin has no
 * use for and that come close to it.
 */
const refused = new Set([
  'child_process',
  'cluster',
  'dgram',
  'ffi',
  'inspector',
  'inspector/promises',
  'module',
  'quic',
  'repl',
  'sqlite',
  'trace_events',
  'vfs',
  'vm',
  'wasi',
  'worker_threads',
])

/**
 * Takes from this process, before any code of a plugin runs, what Node's permission model leaves in it: signals to other
 * processes, their priorities, and modules that don't ask it. Not the only wall, but one more.
 */
export function lockDown(): void {
  registerHooks({
    resolve(specifier, context, next) {
      if (refused.has(specifier.replace(/^node:/, '')))
        throw new Error(`Plugins of the vault can't use ${specifier}.`)
      return next(specifier, context)
    },
  })
  // A shell on the way here may have put its own in again.
  for (const name of Object.keys(process.env)) delete process.env[name]
  const mutable = process as unknown as Record<string, unknown>
  for (const name of ['kill', '_kill', '_debugProcess', '_debugEnd', 'binding', '_linkedBinding', 'dlopen'])
    mutable[name] = undefined
  mutable['getBuiltinModule'] = undefined
  ;(os as unknown as Record<string, unknown>)['setPriority'] = undefined
}
