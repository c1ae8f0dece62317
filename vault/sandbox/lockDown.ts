import module, { registerHooks } from 'node:module'
import os from 'node:os'
import v8 from 'node:v8'

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

/** What writes files without asking the permission model: V8's flags name files that it writes to, and its snapshots are some. */
const writers = [
  'setFlagsFromString',
  'setHeapSnapshotNearHeapLimit',
  'startCpuProfile',
  'startHeapProfile',
  'takeCoverage',
  'writeHeapSnapshot',
]
/** Hooks of a plugin would be asked before ours, and could answer in their place. */
const hooking = ['registerHooks', 'register']

/**
 * Takes from this process, before any code of a plugin runs, what Node's permission model leaves in it: signals to other
 * processes, their priorities, and modules that don't ask it. Not the only wall, but one more.
 */
export function lockDown(): void {
  const assertNotRefused = (specifier: string): void => {
    if (refused.has(specifier.replace(/^node:/, '')))
      throw new Error(`Plugins of the vault can't use ${specifier}.`)
  }
  registerHooks({
    resolve(specifier, context, next) {
      assertNotRefused(specifier)
      const found = next(specifier, context)
      // What a name leads to is not what it says: code may have changed how names are looked up.
      assertNotRefused(found.url)
      return found
    },
    load(url, context, next) {
      assertNotRefused(url)
      return next(url, context)
    },
  })
  // Whatever way it is come by, nothing is left in it.
  empty(process.getBuiltinModule('node:sqlite'))
  without(v8, writers)
  // A shell on the way here may have put its own in again.
  for (const name of Object.keys(process.env)) delete process.env[name]
  without(process, [
    'kill',
    '_kill',
    '_debugProcess',
    '_debugEnd',
    'binding',
    '_linkedBinding',
    'dlopen',
    'getBuiltinModule',
  ])
  without(os, ['setPriority'])
  // What was taken from these modules is gone from their named exports, too.
  module.syncBuiltinESMExports()
  // The loader goes on with the named export, which no plugin can import: CommonJS code has this object by `module.constructor`.
  without(module, hooking)
}

const without = (from: object, names: readonly string[]): void => {
  for (const name of names) if (name in from) (from as Record<string, unknown>)[name] = undefined
}

const empty = (exports: object): void => without(exports, Object.keys(exports))
