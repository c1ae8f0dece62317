#!/usr/bin/env node
// Finds a Node that can run Tollgate, and its code: built (dist/) where the package is installed, the sources in a
// clone. Plain JavaScript, so that an old Node can still print an explanation.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * What a call allocates is dead before a young generation of 16 MB is full, so less of it is copied. The start fills it, and an
 * idle gateway would keep it, so it is given back as soon as the gateway is idle (cli/runtime/heap/releaseHeap.ts).
 */
const youngHeap = '--max-semi-space-size=16'
/** Otherwise SIGUSR1 opens Node's debugger, and with it the keys in this process, to every program on this machine. */
const noDebugger = '--disable-sigusr1'
const flags = [youngHeap, noDebugger]

const source = new URL('./main.ts', import.meta.url)
const main = existsSync(source) ? source : new URL('../dist/cli/main.js', import.meta.url)
const isNew = Number(process.versions.node.split('.')[0]) >= 24

if (isNew && flags.every((flag) => process.execArgv.includes(flag))) {
  await import(main.href)
} else {
  runOn(isNew ? process.execPath : bundledNode())
}

/** Continues as another Node process: replaces this one if the system can, otherwise as its child. */
function runOn(node) {
  if (node === undefined) {
    console.error(
      `tollgate needs Node 24.14.1 or newer, but this is ${process.version}. See https://nodejs.org/`,
    )
    process.exit(1)
  }
  const env = {
    ...process.env,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? compileCache(),
    MALLOC_ARENA_MAX: process.env.MALLOC_ARENA_MAX ?? '2',
  }
  const args = [
    ...new Set([...process.execArgv, ...flags]),
    fileURLToPath(import.meta.url),
    ...process.argv.slice(2),
  ]
  if (process.execve !== undefined && process.platform !== 'win32') process.execve(node, [node, ...args], env)
  const child = spawn(node, args, { stdio: 'inherit', env })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (status, signal) => process.exit(signal ? 1 : (status ?? 1)))
}

/** Folder of compiled code for the next start. It belongs to the user, because code is executed from it. */
function compileCache() {
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'tollgate', 'compiled')
}

/** The Node that npm installed beside the sources, as a development dependency. */
function bundledNode() {
  try {
    const file = createRequire(import.meta.url)
      .resolve('node/package.json')
      .replace(/package\.json$/, 'bin/node')
    return existsSync(file) ? file : undefined
  } catch {
    return undefined
  }
}
