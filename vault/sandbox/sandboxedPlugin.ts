import {
  type VaultDecision,
  type VaultExchange,
  type VaultOperation,
  type VaultPhase,
  vaultOperations,
} from '../../core/plugin/vault.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import { VaultError } from '../errors/error.ts'
import { PluginProcess } from './pluginProcess.ts'
import { createPortServer, type HostPorts } from './portServer.ts'
import type { PluginPlace } from './readable.ts'
import { type FromPlugin, wordsOf } from './wire.ts'

/** A plugin's time limits and restart pauses, in ms. */
export interface PluginLimits {
  readonly loadMs: number
  readonly callMs: number
  readonly closeMs: number
  /**
   * Pause before the first restart, in ms. It doubles each time the plugin exits soon after a start, up to the longest pause.
   */
  readonly restartMinMs: number
  readonly restartMaxMs: number
  /** How long a plugin must run to count as healthy, in ms. After that, the next pause is the first one again. */
  readonly steadyMs: number
}

export const defaultPluginLimits: PluginLimits = {
  loadMs: 30_000,
  callMs: 5_000,
  closeMs: 5_000,
  restartMinMs: 200,
  restartMaxMs: 60_000,
  steadyMs: 60_000,
}

/** Maximum calls that may wait for one plugin. */
const MAX_CALLS = 256

/** A plugin of the configuration, with its description and validated options. None of its code runs in this process. */
export interface PluginToRun {
  readonly name: string
  readonly needs: readonly string[]
  readonly where: PluginPlace
  /** Files that the owner named in the plugin's options. */
  readonly files: readonly string[]
  readonly options: unknown
}

/** A plugin in its own process. */
export interface SandboxedPlugin {
  /** The phases in which the plugin has hooks for an operation. */
  phasesOf(operation: VaultOperation): readonly string[]
  /**
   * The plugin's decision on a request.
   * @throws {VaultError} `PLUGIN_FAILED` when it returns nothing, returns too late, or returns an invalid decision
   */
  decide(phase: VaultPhase, x: VaultExchange): Promise<VaultDecision | undefined>
  start(): void
  close(): Promise<void>
  readonly pid: number | undefined
}

interface Call {
  settle(decision: VaultDecision | undefined): void
  fail(reason: string): void
}

/**
 * Starts a plugin, and restarts it whenever it exits. If a plugin throws, hangs or dies, only requests with its hooks are
 * refused.
 *
 * @param pluginId the plugin's id in the log
 * @throws {Error} when the plugin cannot be loaded or fails its setup
 */
export async function startPlugin(
  plugin: PluginToRun,
  pluginId: string,
  ports: HostPorts,
  limits: PluginLimits,
): Promise<SandboxedPlugin> {
  const { where, files, options, needs } = plugin
  const { log } = ports
  const server = createPortServer(pluginId, needs, ports)
  const calls = new Map<number, Call>()
  let nextId = 1
  let current: PluginProcess | undefined
  let isServing = false
  let isClosed = false
  /** When the current process started. Infinity if there is none. */
  let startedAt = Number.POSITIVE_INFINITY
  let failures = 0
  let restart: NodeJS.Timeout | undefined
  let starting: Promise<unknown> | undefined
  /** The process that is being loaded or set up. */
  let beginning: PluginProcess | undefined

  /** Starts one process, in which it loads the plugin and sets it up. @returns the plugin's hooks */
  async function live(): Promise<ReadonlyMap<string, readonly string[]>> {
    let detach = (): void => {}
    const life = new PluginProcess(where, files, {
      onMessage: (message) => hear(life, message),
      onEnd(reason) {
        detach()
        if (current === life) ended(reason)
      },
    })
    beginning = life
    startedAt = Number.POSITIVE_INFINITY
    await life.load(where, limits.loadMs)
    const given = await life.setUp({ t: 'setup', options, facts: server.facts() }, limits.loadMs)
    beginning = undefined
    detach = server.attach((message) => life.send(message))
    current = life
    startedAt = performance.now()
    if (isServing) life.send({ t: 'start', facts: server.facts() })
    return routesOf(given)
  }

  const routes = await live()

  function ended(reason: string): void {
    current = undefined
    for (const call of calls.values()) call.fail(reason)
    calls.clear()
    if (isClosed) return
    failures = performance.now() - startedAt > limits.steadyMs ? 1 : failures + 1
    const waitMs = Math.min(limits.restartMaxMs, limits.restartMinMs * 2 ** Math.min(failures - 1, 20))
    log.error(
      { plugin: pluginId, reason, waitMs },
      'a plugin exited, so the vault refuses its operations until the plugin is back',
    )
    restart = setTimeout(() => {
      starting = live().then(
        (again) => {
          if (!isSame(routes, again)) return current?.kill('has hooks for other operations than before')
          log.info({ plugin: pluginId }, 'the plugin is back')
        },
        (error: unknown) => ended(error instanceof Error ? error.message : String(error)),
      )
    }, waitMs).unref()
  }

  function hear(life: PluginProcess, message: FromPlugin): void {
    const send = (response: Parameters<PluginProcess['send']>[0]) => life.send(response)
    if (message?.t === 'ask') return server.ask(message, send)
    if (message?.t === 'cancel') return server.cancel(message.id)
    if (message?.t === 'log') return server.log(message)
    if (message?.t !== 'decided' && message?.t !== 'threw')
      return life.kill('sent something other than a message')
    const call = calls.get(message.id)
    calls.delete(message.id)
    if (message.t === 'threw') return call?.fail(`threw: ${wordsOf(message.message, 500)}`)
    const read = readDecision(message.decision)
    if (typeof read === 'string') return call?.fail(read)
    call?.settle(read)
  }

  return {
    get pid() {
      return current?.pid
    },
    phasesOf: (operation) => routes.get(operation) ?? [],
    decide(phase, x) {
      const life = current
      const refuse = (reason: string, cause?: string): VaultError => {
        log.warn(
          {
            plugin: pluginId,
            operation: x.operation,
            requestId: x.requestId,
            phase,
            reason: cause ?? reason,
          },
          'a plugin failed, so the request was refused',
        )
        return new VaultError(
          'PLUGIN_FAILED',
          `The plugin ${pluginId} ${reason}, so the vault refused the request.`,
          {
            details: { plugin: pluginId },
            retryAfterSeconds: 1,
          },
        )
      }
      if (life === undefined) return Promise.reject(refuse('is being restarted'))
      if (calls.size >= MAX_CALLS) return Promise.reject(refuse('is at capacity'))
      const id = nextId++
      return new Promise((resolve, reject) => {
        const late = setTimeout(() => life.kill(`did not decide within ${limits.callMs} ms`), limits.callMs)
        calls.set(id, {
          settle(decision) {
            clearTimeout(late)
            resolve(decision)
          },
          fail(reason) {
            clearTimeout(late)
            reject(refuse('failed', reason))
          },
        })
        life.send({ t: 'call', id, operation: x.operation, phase, x, now: ports.clock.now() })
      })
    },
    start() {
      isServing = true
      current?.send({ t: 'start', facts: server.facts() })
    },
    async close() {
      isClosed = true
      clearTimeout(restart)
      // No call waits for a plugin that is still starting, so it is killed.
      beginning?.kill('the vault is closing')
      await starting
      await current?.close(limits.closeMs)
    },
  }
}

/** A valid decision, with invisible characters in its texts escaped. For an invalid one, a message about the problem. */
function readDecision(value: unknown): VaultDecision | undefined | string {
  if (value === undefined || value === null) return undefined
  const { decision, reason, code, message } = value as Record<string, unknown>
  if (decision === 'allow') return undefined
  if (decision === 'ask' && isText(reason, 500)) return { decision, reason: visibleText(reason) }
  if (decision === 'deny' && isText(message, 500) && isText(code, 64) && /^[A-Z][A-Z0-9_]*$/.test(code))
    return { decision, code, message: visibleText(message) }
  return 'returned no valid decision: expected allow, ask with a reason, or deny with a code and a message'
}

const isText = (value: unknown, maxChars: number): value is string =>
  typeof value === 'string' && value !== '' && value.length <= maxChars

function routesOf(given: Record<string, unknown>): ReadonlyMap<string, readonly string[]> {
  const routes = new Map<string, readonly string[]>()
  for (const operation of vaultOperations) {
    const phases = Object.hasOwn(given, operation) ? given[operation] : undefined
    if (Array.isArray(phases)) routes.set(operation, phases.map(String))
  }
  return routes
}

const isSame = (
  one: ReadonlyMap<string, readonly string[]>,
  other: ReadonlyMap<string, readonly string[]>,
): boolean => JSON.stringify([...one]) === JSON.stringify([...other])
