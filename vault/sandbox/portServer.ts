import type { ApprovalQueue, ApprovalRequest, VaultPorts } from '../../core/plugin/vault.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import { isVaultError } from '../errors/error.ts'
import { type FromPlugin, type QueueFacts, type ToPlugin, type WireError, wordsOf } from './wire.ts'

/** The approvals that plugins may see and decide. */
export interface HostApprovalQueue extends Omit<ApprovalQueue, 'trouble'> {
  /** All approvals that the vault still has. Empty while it is locked. */
  all(): readonly ApprovalRequest[]
}

/** The ports for a plugin, on the vault's side. */
export interface HostPorts extends Omit<VaultPorts, 'approvals'> {
  readonly approvals: HostApprovalQueue & ApprovalQueue
}

/** Performs a plugin's calls to the ports that it was granted, and notifies it of changes. */
export interface PortServer {
  facts(): QueueFacts
  /** Starts the notifications. Returns a function that stops them and ends running calls. */
  attach(send: (message: ToPlugin) => void): () => void
  ask(message: Extract<FromPlugin, { t: 'ask' }>, send: (message: ToPlugin) => void): void
  cancel(id: number): void
  log(message: Extract<FromPlugin, { t: 'log' }>): void
}

/** Maximum concurrent external requests and changes of one plugin. */
const MAX_UNDER_WAY = 16
const LONGEST_REQUEST_MS = 120_000
const MAX_ANSWER_BYTES = 4_000_000
const MAX_LOG_LINES = 50
const MAX_LOG_CHARS = 4_000

/** @param pluginId the plugin's id in the log, such as `telegram`, or `telegram-2` for a second one */
export function createPortServer(pluginId: string, needs: readonly string[], ports: HostPorts): PortServer {
  const { approvals: approvalQueue, egress, store, clock, log } = ports
  const has = (need: string): boolean => needs.includes(need)
  const underWay = new Map<number, AbortController>()
  let second = 0
  let lines = 0

  function facts(): QueueFacts {
    const isLocked = approvalQueue.isLocked()
    return {
      now: clock.now(),
      isLocked,
      approvals: has('approvals') ? approvalQueue.all() : [],
      ...(has('store') && !isLocked && { stored: store.read() }),
    }
  }

  /** The name of the decider for the log. A name from the plugin cannot be mistaken for the owner. */
  const answeredBy = (by: unknown): string => {
    const words = visibleText(textOf(by, 200))
    return words.startsWith(`${pluginId} `) ? words : `${pluginId}: ${words}`
  }

  async function perform(port: unknown, args: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    if (port === 'approve' && has('approvals'))
      return approvalQueue.approve(textOf(args[0]), textOf(args[1]), answeredBy(args[2]))
    if (port === 'deny' && has('approvals')) return approvalQueue.deny(textOf(args[0]), answeredBy(args[1]))
    if (port === 'trouble' && has('approvals'))
      return approvalQueue.trouble(args[0] === null ? null : visibleText(textOf(args[0], 500)))
    if (port === 'write' && has('store')) return store.write(JSON.parse(textOf(args[0], 1_000_000)))
    if (port === 'egress' && has('egress')) return request(args[0] as Record<string, unknown>, signal)
    throw new Error('This plugin has no access to this port.')
  }

  async function request(given: Record<string, unknown>, signal: AbortSignal): Promise<object> {
    const { url, method, headers, body, timeoutMs, maxBytes } = given
    const named = Object.entries((headers ?? {}) as object).map(([name, value]) => [name, textOf(value)])
    const { status, ...response } = await egress.request({
      url: textOf(url),
      method: textOf(method),
      headers: Object.fromEntries(named),
      ...(body !== undefined && { body: Buffer.from(textOf(body, 1_000_000), 'base64') }),
      timeoutMs: within(timeoutMs, LONGEST_REQUEST_MS),
      maxBytes: within(maxBytes, MAX_ANSWER_BYTES),
      signal,
    })
    return { status, headers: response.headers, body: Buffer.from(response.body).toString('base64') }
  }

  return {
    facts,
    attach(send) {
      const stops = [
        ...(has('approvals') ? [approvalQueue.watch((approval) => send({ t: 'question', approval }))] : []),
        approvalQueue.watchLock(() => send({ t: 'lock', facts: facts() })),
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
      if (underWay.size >= MAX_UNDER_WAY)
        return refuse(new Error(`Expected at most ${MAX_UNDER_WAY} requests at once.`))
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
      if (++lines > MAX_LOG_LINES) return
      const write = level === 'debug' || level === 'info' || level === 'warn' ? log[level] : log.error
      const shown = JSON.stringify(fields ?? {})
      const logFields = shown.length > MAX_LOG_CHARS ? {} : { fields: JSON.parse(shown) }
      write.call(log, { plugin: pluginId, ...logFields }, wordsOf(text, 500))
    },
  }
}

/** Returns a string. @throws {Error} for any other value, or a longer string */
function textOf(value: unknown, maxChars = 10_000): string {
  if (typeof value === 'string' && value.length <= maxChars) return value
  throw new Error(`Expected a text of at most ${maxChars} characters.`)
}

const within = (value: unknown, most: number): number =>
  typeof value === 'number' && value > 0 ? Math.min(value, most) : most

function wireError(error: unknown): WireError {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  // The message of an unexpected error is not passed on, because it may contain a secret.
  const isTold = isVaultError(error) || /^EGRESS_|^VALIDATION_ERROR$/.test(String(code)) || code === undefined
  return {
    ...(typeof code === 'string' && { code }),
    message: isTold && typeof message === 'string' ? message : 'The vault could not perform this action.',
  }
}
