import module, { registerHooks } from 'node:module'
import os from 'node:os'
import v8 from 'node:v8'

/**
 * Node modules that a plugin must not load. Some bypass Node's permission model, such as a database that opens any file on its
 * own. The others come close to that, and a plugin does not need them.
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

/** Functions that write files without the permission model, because V8's flags and snapshots name files that V8 writes. */
const writers = [
  'setFlagsFromString',
  'setHeapSnapshotNearHeapLimit',
  'startCpuProfile',
  'startHeapProfile',
  'takeCoverage',
  'writeHeapSnapshot',
]
/** Functions that register hooks. A plugin's hooks would run before the vault's, and could replace their result. */
const hooking = ['registerHooks', 'register']

/**
 * Removes functions from this process that Node's permission model allows, before any plugin code runs. They are signals to
 * other processes, their priorities, and modules that bypass the model. This is only an additional defense.
 */
export function lockDown(): void {
  const assertNotRefused = (specifier: string): void => {
    if (refused.has(specifier.replace(/^node:/, '')))
      throw new Error(`Plugins of the vault cannot use ${specifier}.`)
  }
  registerHooks({
    resolve(specifier, context, next) {
      assertNotRefused(specifier)
      const found = next(specifier, context)
      // The resolved URL is checked too, because a plugin may have changed how names are resolved.
      assertNotRefused(found.url)
      return found
    },
    load(url, context, next) {
      assertNotRefused(url)
      return next(url, context)
    },
  })
  // The module is emptied, because a plugin may get it in another way.
  empty(process.getBuiltinModule('node:sqlite'))
  without(v8, writers)
  // A shell may have set variables of its own before this process started.
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
  // The same functions are removed from the modules' named exports.
  module.syncBuiltinESMExports()
  // The loader uses the named export, which no plugin can import. CommonJS code has this object as `module.constructor`, so it
  // loses the functions too.
  without(module, hooking)
}

const without = (from: object, names: readonly string[]): void => {
  for (const name of names) if (name in from) (from as Record<string, unknown>)[name] = undefined
}

const empty = (exports: object): void => without(exports, Object.keys(exports))
