import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { extname, parse } from 'node:path'
import { fileURLToPath } from 'node:url'
import { visibleText } from '../../core/text/visibleText.ts'
import { type PluginPlace, readableBy } from './readable.ts'
import {
  createLineReader,
  type FromPlugin,
  lineOf,
  MAX_LINE_BYTES,
  type PluginDescription,
  type ToPlugin,
  wordsOf,
} from './wire.ts'

/** Heap of the plugin's JavaScript, in MiB; beyond it Node ends the process. */
const HEAP_MB = 128
/** All its memory that is not a file's, in KiB: what a heap limit does not count. */
const DATA_KB = 1_048_576
/** Processor time of one life, in seconds: one that loops when its vault was killed ends, too. */
const CPU_SECONDS = 3_600
/** Messages of one plugin in a second; one that says more keeps the vault from its work. */
const MOST_MESSAGES = 2_000
/** What is kept of the end of what a plugin prints, to say why it ended. */
const KEPT_CHARS = 600
/** Longest reason of a plugin for refusing to be loaded or set up. */
const MOST_WORDS = 2_000
/** What waits at once for a plugin to read it, in bytes: above every answer that it may have under way. */
const MOST_UNREAD_BYTES = 134_217_728

export interface ProcessEvents {
  /** Whatever comes after `setup`, not looked at yet. */
  onMessage(message: FromPlugin): void
  /** Once, when it is gone without having been asked to close. */
  onEnd(reason: string): void
}

/**
 * One life of a plugin's process, from its start to its end; it is never started again: make another. What it says is
 * bounded, and who breaks the rules of the channel is ended.
 */
export class PluginProcess {
  readonly #child: ChildProcess
  readonly #events: ProcessEvents
  /** Fulfilled when the process is gone. */
  readonly gone: Promise<void>
  #waiting: { settle(message: FromPlugin): void; fail(error: Error): void } | undefined
  #reason: string | undefined
  #printed = ''
  #isOver = false
  #isClosing = false
  #second = 0
  #messages = 0

  constructor(place: PluginPlace, files: readonly string[], events: ProcessEvents) {
    this.#events = events
    const child = spawnPlugin(readableBy(place, files))
    this.#child = child
    this.gone = new Promise((resolve) => {
      const over = (reason: string): void => {
        if (this.#isOver) return
        this.#isOver = true
        this.#over(this.#reason ?? reason)
        resolve()
      }
      child.once('close', (code, signal) => over(`ended with ${signal ?? `status ${code}`}`))
      child.once('error', (error) => over(`could not be started: ${error.message}`))
    })
    child.stdin!.on('error', () => this.kill('takes nothing any more'))
    child.stdout!.on(
      'data',
      createLineReader(
        MAX_LINE_BYTES,
        (message) => this.#heard(message),
        (what) => this.kill(what),
      ),
    )
    child.stderr!.on('data', (chunk: Buffer) => {
      this.#printed = (this.#printed + chunk.toString('utf8').slice(0, KEPT_CHARS)).slice(-KEPT_CHARS)
    })
  }

  /** For tests and diagnosis. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  /** @throws {Error} what the plugin said against it, that it ended, or that it was late; it is gone then */
  async load({ use, baseDir, isBuiltIn, names }: PluginPlace, withinMs: number): Promise<PluginDescription> {
    const loaded = await this.#ask({ t: 'load', use, baseDir, isBuiltIn, names }, 'loaded', withinMs)
    return loaded.plugin
  }

  /** @returns for each operation the phases that it has hooks for @throws as `load` does */
  async setUp(
    message: Extract<ToPlugin, { t: 'setup' }>,
    withinMs: number,
  ): Promise<Record<string, unknown>> {
    const { routes } = await this.#ask(message, 'ready', withinMs)
    return typeof routes === 'object' && routes !== null ? { ...routes } : {}
  }

  send(message: ToPlugin): void {
    if (this.#isOver) return
    this.#child.stdin!.write(lineOf(message))
    if (this.#child.stdin!.writableLength > MOST_UNREAD_BYTES) this.kill('does not read what it is told')
  }

  /** Ends it at once. */
  kill(reason: string): void {
    this.#reason ??= reason
    this.#child.kill('SIGKILL')
  }

  /** Lets it close, ends it when it takes too long; fulfilled when the process is gone. */
  async close(withinMs: number): Promise<void> {
    this.#isClosing = true
    this.send({ t: 'close' })
    const late = setTimeout(() => this.kill('did not close in time'), withinMs)
    await this.gone
    clearTimeout(late)
  }

  #ask<T extends FromPlugin['t']>(message: ToPlugin, answer: T, withinMs: number) {
    return new Promise<Extract<FromPlugin, { t: T }>>((resolve, reject) => {
      const done = (): void => {
        clearTimeout(late)
        this.#waiting = undefined
      }
      const late = setTimeout(() => this.kill(`did not answer within ${withinMs} ms`), withinMs)
      this.#waiting = {
        settle: (said) => {
          done()
          if (said.t === answer) return resolve(said as Extract<FromPlugin, { t: T }>)
          const why = said.t === 'refused' ? wordsOf(said.message, MOST_WORDS) : 'it said something else'
          reject(new Error(why))
          this.kill('refused')
        },
        fail: (error) => {
          done()
          reject(error)
        },
      }
      this.send(message)
    })
  }

  #heard(said: unknown): void {
    if (this.#isOver) return
    const second = Math.floor(performance.now() / 1_000)
    if (second !== this.#second) this.#messages = 0
    this.#second = second
    if (++this.#messages > MOST_MESSAGES) return this.kill('said more than can be listened to')
    try {
      this.#take(said as FromPlugin | null)
    } catch {
      // What is thrown here would end the vault, which no words of a plugin may do.
      this.kill('said what can not be read')
    }
  }

  #take(message: FromPlugin | null): void {
    if (message?.t === 'loaded' || message?.t === 'ready' || message?.t === 'refused')
      return this.#waiting?.settle(message)
    if (message?.t !== 'closed') this.#events.onMessage(message as FromPlugin)
  }

  #over(reason: string): void {
    // In one line: a plugin's words can't pretend to be another one.
    const printed = visibleText(this.#printed.replace(/\s+/g, ' ').trim())
    const why = printed === '' ? reason : `${reason}: ${printed}`
    if (this.#waiting !== undefined) this.#waiting.fail(new Error(why))
    else if (!this.#isClosing) this.#events.onEnd(why)
  }
}

/** Compiled, this module and the child are .js; run from source, both are .ts. */
const program = fileURLToPath(new URL(`./plugin.child${extname(import.meta.url)}`, import.meta.url))
const shell = '/bin/sh'

/**
 * Starts the process that runs one plugin: an empty environment, no debugger by signal, a bounded heap, no core dumps, no
 * file that it could write a byte to, and Node's permission model without writing, processes, threads, addons and (from Node 25) the network.
 *
 * @param readable what it may read, as `--allow-fs-read` takes it
 */
function spawnPlugin(readable: readonly string[]): ChildProcess {
  const known = (flag: string): boolean => process.allowedNodeEnvironmentFlags.has(flag)
  const args = [
    ...['--permission', '--disable-sigusr1'].filter(known),
    ...(known('--permission') ? readable.map((path) => `--allow-fs-read=${path}`) : []),
    `--max-old-space-size=${HEAP_MB}`,
    '--no-warnings',
    program,
  ]
  const { SYSTEMROOT } = process.env
  const options = {
    stdio: ['pipe', 'pipe', 'pipe'] as ['pipe', 'pipe', 'pipe'],
    env: SYSTEMROOT === undefined ? {} : { SYSTEMROOT },
    cwd: parse(process.execPath).root,
    windowsHide: true,
  }
  if (!existsSync(shell)) return spawn(process.execPath, args, options)
  // What preloads code into every Node (a profiler, a test runner) puts NODE_OPTIONS into each child, past an empty env.
  const limits = `ulimit -c 0; ulimit -f 0; ulimit -t ${CPU_SECONDS}; ulimit -d ${DATA_KB} 2>/dev/null; unset NODE_OPTIONS; exec "$0" "$@"`
  return guarded(spawn(shell, ['-c', limits, process.execPath, ...args], options))
}

/**
 * Has a shell of its own wait for the end of this process, however that comes, and end the plugin then: one that loops never
 * reads that its input has ended.
 */
function guarded(child: ChildProcess): ChildProcess {
  if (child.pid === undefined) return child
  const guard = spawn(shell, ['-c', 'read -r _; kill -9 "$0"', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: {},
    detached: true,
  })
  // Without it everything works but this.
  guard.once('error', () => undefined)
  guard.stdin.on('error', () => undefined)
  guard.unref()
  ;(guard.stdin as unknown as { unref(): void }).unref()
  // First, so that it never sees the end of this process with a number that somebody else has by then.
  child.once('exit', () => guard.kill('SIGKILL'))
  return child
}
