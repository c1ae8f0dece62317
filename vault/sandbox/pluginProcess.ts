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

/** Maximum heap of the plugin's JavaScript, in MiB. If it needs more, Node ends the process. */
const HEAP_MB = 128
/** Maximum data segment of the process, in KiB, for memory that the heap limit does not cover. */
const DATA_KB = 1_048_576
/** Maximum CPU time of one process, in seconds. The limit ends a looping plugin even after its vault was killed. */
const CPU_SECONDS = 3_600
/** Maximum messages per second from one plugin. More messages would keep the vault from its other work. */
const MAX_MESSAGES = 2_000
/** Number of characters at the end of a plugin's output that are stored, to report why it ended. */
const MAX_OUTPUT_CHARS = 600
/** Maximum length of a plugin's reason for failing to load or to set up, in characters. */
const MAX_WORDS = 2_000
/** Maximum bytes that may wait until a plugin reads them. It is more than all responses that the plugin may have in flight. */
const MAX_UNREAD_BYTES = 134_217_728

export interface ProcessEvents {
  /** Any message after `setup`, not validated yet. */
  onMessage(message: FromPlugin): void
  /** Called once, when the process exits without a request to close. */
  onEnd(reason: string): void
}

/**
 * One process of a plugin, from start to exit. It is never restarted. Its messages are limited, and a process that violates the
 * protocol is killed.
 */
export class PluginProcess {
  readonly #child: ChildProcess
  readonly #events: ProcessEvents
  /** Fulfilled when the process has exited. */
  readonly gone: Promise<void>
  #waiting: { settle(message: FromPlugin): void; fail(error: Error): void } | undefined
  #reason: string | undefined
  #printed = ''
  #isOver = false
  #isClosing = false
  #second = 0
  #messages = 0

  constructor(pluginId: PluginPlace, files: readonly string[], events: ProcessEvents) {
    this.#events = events
    const child = spawnPlugin(readableBy(pluginId, files))
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
    child.stdin!.on('error', () => this.kill('no longer reads its input'))
    child.stdout!.on(
      'data',
      createLineReader(
        MAX_LINE_BYTES,
        (message) => this.#heard(message),
        (what) => this.kill(what),
      ),
    )
    child.stderr!.on('data', (chunk: Buffer) => {
      this.#printed = (this.#printed + chunk.toString('utf8').slice(0, MAX_OUTPUT_CHARS)).slice(
        -MAX_OUTPUT_CHARS,
      )
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** @throws {Error} the plugin's own error, its exit, or a timeout. The process has exited then */
  async load({ use, baseDir, isBuiltIn, names }: PluginPlace, withinMs: number): Promise<PluginDescription> {
    const loaded = await this.#ask({ t: 'load', use, baseDir, isBuiltIn, names }, 'loaded', withinMs)
    return loaded.plugin
  }

  /** @returns the phases with hooks for each operation @throws as `load` does */
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
    if (this.#child.stdin!.writableLength > MAX_UNREAD_BYTES) this.kill('does not read its messages')
  }

  kill(reason: string): void {
    this.#reason ??= reason
    this.#child.kill('SIGKILL')
  }

  /** Asks the process to close, and kills it if that takes too long. Fulfilled when the process has exited. */
  async close(withinMs: number): Promise<void> {
    this.#isClosing = true
    this.send({ t: 'close' })
    const late = setTimeout(() => this.kill('did not close in time'), withinMs)
    await this.gone
    clearTimeout(late)
  }

  #ask<T extends FromPlugin['t']>(message: ToPlugin, response: T, withinMs: number) {
    return new Promise<Extract<FromPlugin, { t: T }>>((resolve, reject) => {
      const done = (): void => {
        clearTimeout(late)
        this.#waiting = undefined
      }
      const late = setTimeout(() => this.kill(`did not answer within ${withinMs} ms`), withinMs)
      this.#waiting = {
        settle: (result) => {
          done()
          if (result.t === response) return resolve(result as Extract<FromPlugin, { t: T }>)
          const why =
            result.t === 'refused' ? wordsOf(result.message, MAX_WORDS) : 'it sent an unexpected message'
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

  #heard(result: unknown): void {
    if (this.#isOver) return
    const second = Math.floor(performance.now() / 1_000)
    if (second !== this.#second) this.#messages = 0
    this.#second = second
    if (++this.#messages > MAX_MESSAGES) return this.kill('sent too many messages')
    try {
      this.#take(result as FromPlugin | null)
    } catch {
      // No message of a plugin may cause an exception here, because it would end the vault.
      this.kill('sent an unreadable message')
    }
  }

  #take(message: FromPlugin | null): void {
    if (message?.t === 'loaded' || message?.t === 'ready' || message?.t === 'refused')
      return this.#waiting?.settle(message)
    if (message?.t !== 'closed') this.#events.onMessage(message as FromPlugin)
  }

  #over(reason: string): void {
    // The output is put on one line, so that it cannot imitate another log line.
    const printed = visibleText(this.#printed.replace(/\s+/g, ' ').trim())
    const why = printed === '' ? reason : `${reason}: ${printed}`
    if (this.#waiting !== undefined) this.#waiting.fail(new Error(why))
    else if (!this.#isClosing) this.#events.onEnd(why)
  }
}

/** The program of the child. Its extension is this module's, which is .js when compiled and .ts in a clone. */
const program = fileURLToPath(new URL(`./plugin.child${extname(import.meta.url)}`, import.meta.url))
const shell = '/bin/sh'

/**
 * Starts the process of one plugin. It has an empty environment, no debugger by signal, a limited heap, no core dumps, and no
 * file to which it could write. Node's permission model denies it writing, processes, threads, addons and (from Node 25) the
 * network.
 *
 * @param readable the files that the process may read, in the form of `--allow-fs-read`
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
  // NODE_OPTIONS is unset, because tools that preload code into every Node (a profiler, a test runner) put it into each child
  // despite an empty environment.
  const limits = `ulimit -c 0; ulimit -f 0; ulimit -t ${CPU_SECONDS}; ulimit -d ${DATA_KB} 2>/dev/null; unset NODE_OPTIONS; exec "$0" "$@"`
  return guarded(spawn(shell, ['-c', limits, process.execPath, ...args], options))
}

/**
 * Starts a shell that waits for this process to end for any reason, and then kills the plugin. A looping plugin never notices
 * that its input has ended.
 */
function guarded(child: ChildProcess): ChildProcess {
  if (child.pid === undefined) return child
  const guard = spawn(shell, ['-c', 'read -r _; kill -9 "$0"', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: {},
    detached: true,
  })
  // If the guard cannot start, the plugin still runs.
  guard.once('error', () => undefined)
  guard.stdin.on('error', () => undefined)
  guard.unref()
  ;(guard.stdin as unknown as { unref(): void }).unref()
  // The guard is killed first, so that it never kills a process that has reused the pid.
  child.once('exit', () => guard.kill('SIGKILL'))
  return child
}
