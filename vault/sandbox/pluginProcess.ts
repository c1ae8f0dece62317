import type { ChildProcess } from 'node:child_process'
import { type PluginPlace, readableBy } from './readable.ts'
import { spawnPlugin } from './spawnPlugin.ts'
import {
  createLineReader,
  type FromPlugin,
  lineOf,
  maxLineBytes,
  type PluginDescription,
  type ToPlugin,
  wordsOf,
} from './wire.ts'

/** Messages of one plugin in a second; one that says more keeps the vault from its work. */
const mostMessages = 2_000
/** What is kept of the end of what a plugin prints, to say why it ended. */
const keptChars = 600
/** Longest reason of a plugin for refusing to be loaded or set up. */
const mostWords = 2_000
/** What waits at once for a plugin to read it, in bytes: above every answer that it may have under way. */
const mostUnreadBytes = 134_217_728

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
        maxLineBytes,
        (message) => this.#heard(message),
        (what) => this.kill(what),
      ),
    )
    child.stderr!.on('data', (chunk: Buffer) => {
      this.#printed = (this.#printed + chunk.toString('utf8').slice(0, keptChars)).slice(-keptChars)
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
    if (this.#child.stdin!.writableLength > mostUnreadBytes) this.kill('does not read what it is told')
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
          const why = said.t === 'refused' ? wordsOf(said.message, mostWords) : 'it said something else'
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
    if (++this.#messages > mostMessages) return this.kill('said more than can be listened to')
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
    const printed = printable(this.#printed)
    const why = printed === '' ? reason : `${reason}: ${printed}`
    if (this.#waiting !== undefined) this.#waiting.fail(new Error(why))
    else if (!this.#isClosing) this.#events.onEnd(why)
  }
}

/** Without what would move a terminal's cursor, or pretend to be another line. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const printable = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f\s]+/g, ' ').trim()
