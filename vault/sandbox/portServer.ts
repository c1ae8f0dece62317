import type { ApprovalDesk, VaultPorts } from '../../core/plugin/vault.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import { isVaultError } from '../errors/error.ts'
import type { HostDesk } from '../host/api/desk.ts'
import { type DeskFacts, type FromPlugin, type ToPlugin, type WireError, wordsOf } from './wire.ts'

/** What a plugin may be given, on the vault's side. */
export interface HostPorts extends Omit<VaultPorts, 'approvals'> {
  readonly approvals: HostDesk & ApprovalDesk
}

/** Does what a plugin asks of the ports that it was granted, and tells it what changes there. */
export interface PortServer {
  facts(): DeskFacts
  /** Begins to tell what changes; returns how to stop, which ends what is under way, too. */
  attach(send: (message: ToPlugin) => void): () => void
  ask(message: Extract<FromPlugin, { t: 'ask' }>, send: (message: ToPlugin) => void): void
  cancel(id: number): void
  log(message: Extract<FromPlugin, { t: 'log' }>): void
}

/** Requests of one plugin to the outside that are under way at once, and changes that it asks for. */
const MOST_UNDER_WAY = 16
const LONGEST_REQUEST_MS = 120_000
const MOST_ANSWER_BYTES = 4_000_000
const MOST_LOG_LINES = 50
const MOST_LOG_CHARS = 4_000

/** @param place names the plugin in the log: `telegram`, a second one `telegram-2` */
export function createPortServer(place: string, needs: readonly string[], ports: HostPorts): PortServer {
  const { approvals: desk, egress, store, clock, log } = ports
  const has = (need: string): boolean => needs.includes(need)
  const underWay = new Map<number, AbortController>()
  let second = 0
  let lines = 0

  function facts(): DeskFacts {
    const isLocked = desk.isLocked()
    return {
      now: clock.now(),
      isLocked,
      questions: has('approvals') ? desk.all() : [],
      ...(has('store') && !isLocked && { stored: store.read() }),
    }
  }

  /** Who answered, for the log: the plugin's own words can't pass for the owner's. */
  const answeredBy = (by: unknown): string => {
    const words = visibleText(textOf(by, 200))
    return words.startsWith(`${place} `) ? words : `${place}: ${words}`
  }

  async function perform(port: unknown, args: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    if (port === 'approve' && has('approvals'))
      return desk.approve(textOf(args[0]), textOf(args[1]), answeredBy(args[2]))
    if (port === 'deny' && has('approvals')) return desk.deny(textOf(args[0]), answeredBy(args[1]))
    if (port === 'trouble' && has('approvals'))
      return desk.trouble(args[0] === null ? null : visibleText(textOf(args[0], 500)))
    if (port === 'write' && has('store')) return store.write(JSON.parse(textOf(args[0], 1_000_000)))
    if (port === 'egress' && has('egress')) return request(args[0] as Record<string, unknown>, signal)
    throw new Error('This plugin was not granted that.')
  }

  async function request(given: Record<string, unknown>, signal: AbortSignal): Promise<object> {
    const { url, method, headers, body, timeoutMs, maxBytes } = given
    const named = Object.entries((headers ?? {}) as object).map(([name, value]) => [name, textOf(value)])
    const { status, ...answer } = await egress.request({
      url: textOf(url),
      method: textOf(method),
      headers: Object.fromEntries(named),
      ...(body !== undefined && { body: Buffer.from(textOf(body, 1_000_000), 'base64') }),
      timeoutMs: within(timeoutMs, LONGEST_REQUEST_MS),
      maxBytes: within(maxBytes, MOST_ANSWER_BYTES),
      signal,
    })
    return { status, headers: answer.headers, body: Buffer.from(answer.body).toString('base64') }
  }

  return {
    facts,
    attach(send) {
      const stops = [
        ...(has('approvals') ? [desk.watch((question) => send({ t: 'question', question }))] : []),
        desk.watchLock(() => send({ t: 'lock', facts: facts() })),
      ]
      return () => {
        for (const stop of stops) stop()
        for (const one of underWay.values()) one.abort()
        underWay.clear()
      }
    },
    ask({ id, port, args }, send) {
      const refuse = (error: unknown): void => send({ t: 'answer', id, error: wireError(error) })
      if (!Number.isSafeInteger(id) || underWay.has(id) || !Array.isArray(args)) return
      if (underWay.size >= MOST_UNDER_WAY)
        return refuse(new Error(`Expected at most ${MOST_UNDER_WAY} at once.`))
      const stop = new AbortController()
      underWay.set(id, stop)
      perform(port, args, stop.signal)
        .then((value) => send({ t: 'answer', id, ...(value !== undefined && { value }) }), refuse)
        .finally(() => underWay.delete(id))
    },
    cancel(id) {
      underWay.get(id)?.abort()
    },
    log({ level, fields, text }) {
      if (!has('log')) return
      const now = Math.floor(performance.now() / 1_000)
      if (now !== second) lines = 0
      second = now
      if (++lines > MOST_LOG_LINES) return
      const write = level === 'debug' || level === 'info' || level === 'warn' ? log[level] : log.error
      const shown = JSON.stringify(fields ?? {})
      const said = shown.length > MOST_LOG_CHARS ? {} : { said: JSON.parse(shown) }
      write.call(log, { plugin: place, ...said }, wordsOf(text, 500))
    },
  }
}

/** @throws {Error} for what is no text, or a longer one */
function textOf(value: unknown, mostChars = 10_000): string {
  if (typeof value === 'string' && value.length <= mostChars) return value
  throw new Error(`Expected a text of at most ${mostChars} characters.`)
}

const within = (value: unknown, most: number): number =>
  typeof value === 'number' && value > 0 ? Math.min(value, most) : most

function wireError(error: unknown): WireError {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  // What is no refusal may say what it should not.
  const isTold = isVaultError(error) || /^EGRESS_|^VALIDATION_ERROR$/.test(String(code)) || code === undefined
  return {
    ...(typeof code === 'string' && { code }),
    message: isTold && typeof message === 'string' ? message : 'The vault could not do it.',
  }
}
