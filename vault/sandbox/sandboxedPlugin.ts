import type { VaultDecision, VaultExchange, VaultOperation, VaultPhase } from '../../core/plugin/vault.ts'
import { vaultOperations } from '../../core/plugin/vault.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import { VaultError } from '../errors/error.ts'
import { PluginProcess } from './pluginProcess.ts'
import { createPortServer, type HostPorts } from './portServer.ts'
import type { PluginPlace } from './readable.ts'
import { type FromPlugin, wordsOf } from './wire.ts'

/** How long a plugin may take, in milliseconds, and how it comes back. */
export interface PluginLimits {
  readonly loadMs: number
  readonly callMs: number
  readonly closeMs: number
  /** The wait before it is started again: the first, doubled each time it ends soon after, and the longest. */
  readonly restartMinMs: number
  readonly restartMaxMs: number
  /** One that was up so long before it ended was well: the next wait is the first again. */
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

/** Calls of one plugin that wait for it at once. */
const MOST_CALLS = 256

/** A plugin of the configuration: found, described by itself, its options checked. Nothing of it runs in this process. */
export interface PluginToRun {
  readonly name: string
  readonly needs: readonly string[]
  readonly where: PluginPlace
  /** Files that the owner named in its options. */
  readonly files: readonly string[]
  readonly options: unknown
}

/** A plugin in a process of its own. */
export interface SandboxedPlugin {
  /** The phases in which it takes part in an operation. */
  phasesOf(operation: VaultOperation): readonly string[]
  /**
   * What it says about a request.
   * @throws {VaultError} `PLUGIN_FAILED` when it says nothing, nothing in time, or something else
   */
  decide(phase: VaultPhase, x: VaultExchange): Promise<VaultDecision | undefined>
  start(): void
  close(): Promise<void>
  /** Of its process, for tests and diagnosis. */
  readonly pid: number | undefined
}

interface Call {
  settle(decision: VaultDecision | undefined): void
  fail(reason: string): void
}

/**
 * Starts a plugin, and again whenever it ends: a plugin that throws, hangs or dies refuses the requests that it takes part
 * in, and nothing else.
 *
 * @param place names it in the log
 * @throws {Error} when it can't be loaded or refuses its set-up
 */
export async function startPlugin(
  plugin: PluginToRun,
  place: string,
  ports: HostPorts,
  limits: PluginLimits,
): Promise<SandboxedPlugin> {
  const { where, files, options, needs } = plugin
  const { log } = ports
  const server = createPortServer(place, needs, ports)
  const calls = new Map<number, Call>()
  let nextId = 1
  let current: PluginProcess | undefined
  let isServing = false
  let isClosed = false
  /** When the life that counts began; at no time, while none does. */
  let startedAt = Number.POSITIVE_INFINITY
  let failures = 0
  let restart: NodeJS.Timeout | undefined
  let starting: Promise<unknown> | undefined
  /** The life that is loaded or set up, and does not count yet. */
  let beginning: PluginProcess | undefined

  /** One life: loaded and set up. @returns its hooks */
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
      { plugin: place, reason, waitMs },
      'a plugin ended: what it takes part in is refused until it is back',
    )
    restart = setTimeout(() => {
      starting = live().then(
        (again) => {
          if (!isSame(routes, again)) return current?.kill('takes part in other operations than before')
          log.info({ plugin: place }, 'the plugin is back')
        },
        (error: unknown) => ended(error instanceof Error ? error.message : String(error)),
      )
    }, waitMs).unref()
  }

  function hear(life: PluginProcess, message: FromPlugin): void {
    const send = (answer: Parameters<PluginProcess['send']>[0]) => life.send(answer)
    if (message?.t === 'ask') return server.ask(message, send)
    if (message?.t === 'cancel') return server.cancel(message.id)
    if (message?.t === 'log') return server.log(message)
    if (message?.t !== 'decided' && message?.t !== 'threw')
      return life.kill('said something that is no message')
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
          { plugin: place, operation: x.operation, requestId: x.requestId, phase, reason: cause ?? reason },
          'a plugin failed; the request was refused',
        )
        return new VaultError('PLUGIN_FAILED', `The plugin ${place} ${reason}, so the vault refuses this.`, {
          details: { plugin: place },
          retryAfterSeconds: 1,
        })
      }
      if (life === undefined) return Promise.reject(refuse('is being started again'))
      if (calls.size >= MOST_CALLS) return Promise.reject(refuse('has too much to do'))
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
      // Nobody waits for one that is being started: it has nothing to bring to its end.
      beginning?.kill('the vault closes')
      await starting
      await current?.close(limits.closeMs)
    },
  }
}

/** A decision, its words in a form that hides nothing, or in words what is wrong with it. */
function readDecision(said: unknown): VaultDecision | undefined | string {
  if (said === undefined || said === null) return undefined
  const { decision, reason, code, message } = said as Record<string, unknown>
  if (decision === 'allow') return undefined
  if (decision === 'ask' && isText(reason, 500)) return { decision, reason: visibleText(reason) }
  if (decision === 'deny' && isText(message, 500) && isText(code, 64) && /^[A-Z][A-Z0-9_]*$/.test(code))
    return { decision, code, message: visibleText(message) }
  return 'gave no decision: expected allow, ask with a reason, or deny with a code and a message'
}

const isText = (value: unknown, mostChars: number): value is string =>
  typeof value === 'string' && value !== '' && value.length <= mostChars

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
