import { GenerationError } from '../../core/kernel/generationError.ts'
import { lineUp } from '../../core/kernel/lineUp.ts'
import { checkOrder } from '../../core/kernel/order.ts'
import { passed, run } from '../../core/kernel/run.ts'
import { closePlugins } from '../../core/kernel/setUpPlugin.ts'
import {
  type VaultAnswer,
  type VaultDecision,
  type VaultExchange,
  type VaultOperation,
  type VaultPhase,
  type VaultPortName,
  vaultOperations,
  vaultPhases,
} from '../../core/plugin/vault.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import { type FoundPlugin, filesOf } from '../sandbox/findPlugin.ts'
import type { HostPorts } from '../sandbox/portServer.ts'
import {
  defaultPluginLimits,
  type PluginLimits,
  type SandboxedPlugin,
  startPlugin,
} from '../sandbox/sandboxedPlugin.ts'
import type { HostHook, HostHooks, HostPlugin } from './phases/hostPlugin.ts'
import type { VaultCall } from './vaultCall.ts'

/** A plugin of the configuration, its options checked. */
export interface VaultPluginEntry {
  readonly plugin: FoundPlugin
  readonly options: unknown
  /** Whether it may answer questions in the owner's name (port `approvals`); built-in ones may. */
  readonly mayAnswer?: boolean
}

/** What every operation does, in order; made once when the vault starts. */
export interface Programs {
  /** Runs one request through its operation, its entry in the log included. @throws what refused it or failed */
  run(x: VaultCall): Promise<VaultAnswer>
  start(): void
  close(): Promise<void>
}

interface Program {
  readonly hooks: readonly HostHook[]
  readonly audits: readonly HostHook[]
}

/** The names of everything that a plugin may need. */
const portNames: readonly string[] = [
  'approvals',
  'clock',
  'egress',
  'log',
  'store',
] satisfies readonly VaultPortName[]

/**
 * Lines the host's own parts and the owner's plugins up, the plugins of a phase after the host's. Each plugin is started in
 * a process of its own; without plugins, none is.
 *
 * @param portsOf what a plugin may be given; told its place, which names it: `telegram`, a second one `telegram-2`
 * @throws {GenerationError} naming the plugin that refused its set-up, that has hooks of another host, or that reads what
 *         nothing before it writes; what was set up is closed again
 */
export async function buildPrograms(
  own: readonly HostPlugin[],
  entries: readonly VaultPluginEntry[],
  portsOf: (place: string) => HostPorts,
  limits: PluginLimits = defaultPluginLimits,
): Promise<Programs> {
  const plugins: SandboxedPlugin[] = []
  const parts: HostPlugin[] = [...own]
  const places = new Set<string>()
  try {
    for (const entry of entries) {
      const { name, slots } = entry.plugin
      const place = placeFor(name, places)
      places.add(place)
      const plugin = await start(entry, place, portsOf(place), limits)
      plugins.push(plugin)
      parts.push(pluginPart(name, place, slots, plugin))
    }
    return lined(parts, plugins)
  } catch (error) {
    // Why it was refused matters more than how it closed.
    await closePlugins(plugins).catch(() => undefined)
    throw error
  }
}

/** What names a plugin and its store: its own name, or the first of `name-2`, `name-3` … that no other has. */
function placeFor(name: string, taken: ReadonlySet<string>): string {
  let place = name
  for (let time = 2; taken.has(place); time++) place = `${name}-${time}`
  return place
}

async function start(
  { plugin, options, mayAnswer = plugin.where.isBuiltIn }: VaultPluginEntry,
  place: string,
  ports: HostPorts,
  limits: PluginLimits,
): Promise<SandboxedPlugin> {
  const { name, needs, where } = plugin
  const unknown = needs.find((need) => !portNames.includes(need))
  if (unknown !== undefined)
    throw new GenerationError(`Plugin ${name} needs ${unknown}, which this vault does not have.`)
  if (needs.includes('approvals') && !mayAnswer)
    throw new GenerationError(
      `Plugin ${name} wants to answer questions in your name. If it may, say mayAnswer: true beside its use.`,
    )
  try {
    return await startPlugin(
      { name, needs, where, options, files: filesOf(plugin, options) },
      place,
      ports,
      limits,
    )
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new GenerationError(`Plugin ${name} refused its set-up: ${reason}`, { cause })
  }
}

function lined(parts: readonly HostPlugin[], plugins: readonly SandboxedPlugin[]): Programs {
  const programs = new Map(vaultOperations.map((operation) => [operation, compile(operation, parts)]))
  return {
    async run(x) {
      const { hooks, audits } = programs.get(x.operation)!
      try {
        const answer = await run<VaultCall, VaultAnswer>(hooks, x)
        if (answer === passed) throw new Error(`No part of the vault answers ${x.operation}.`)
        return answer as VaultAnswer
      } catch (error) {
        x.failure = error instanceof Error ? error : new Error(String(error))
        throw error
      } finally {
        for (const audit of audits) await audit(x)
      }
    },
    start() {
      for (const plugin of plugins) plugin.start()
    },
    // All at once: each may take some seconds, and the vault is open until then.
    close: async () => void (await Promise.all(plugins.map((plugin) => plugin.close()))),
  }
}

function compile(operation: VaultOperation, parts: readonly HostPlugin[]): Program {
  const routed = parts.flatMap((part) => {
    const hooks = part.route(operation)
    if (hooks === undefined) return []
    assertPhases(part.name, hooks)
    return [{ name: part.name, hooks, slots: part.slots }]
  })
  const steps = lineUp<VaultPhase, HostHook>(vaultPhases, routed)
  const problems = checkOrder(steps)
  if (problems.length > 0) throw new GenerationError(problems.map(({ message }) => message).join('\n'))
  return {
    hooks: steps.filter((step) => step.phase !== 'audit').map((step) => step.hook),
    audits: steps.filter((step) => step.phase === 'audit').map((step) => step.hook),
  }
}

/** A hook that is never called looks like a rule that holds: a misspelt phase, or a plugin of the gateway. */
function assertPhases(plugin: string, hooks: object): void {
  const unknown = Object.keys(hooks).filter((name) => !(vaultPhases as readonly string[]).includes(name))
  if (unknown.length === 0) return
  throw new GenerationError(
    `Plugin ${plugin} has hooks for ${unknown.join(', ')}, which are no phases of the vault: ${vaultPhases.join(', ')}.`,
  )
}

/** Phases in which a plugin may still have the owner asked. */
const asking: readonly VaultPhase[] = ['identify', 'authorize']

/** A plugin of the configuration as a part of the host: it is told of a request, and can make its verdict stricter. */
function pluginPart(
  name: string,
  place: string,
  slots: HostPlugin['slots'],
  plugin: SandboxedPlugin,
): HostPlugin {
  return {
    name,
    ...(slots && { slots }),
    route(operation) {
      const phases = plugin.phasesOf(operation)
      if (phases.length === 0) return undefined
      return Object.fromEntries(phases.map((phase) => [phase, hookOf(phase as VaultPhase)])) as HostHooks
    },
  }

  function hookOf(phase: VaultPhase): HostHook {
    if (phase === 'audit')
      return (x) => {
        // What was done is done: whoever asked gets the answer, whatever becomes of this; its failure is logged.
        plugin.decide(phase, pluginView(x)).catch(() => undefined)
      }
    return async (x) => apply(x, phase, await plugin.decide(phase, pluginView(x)))
  }

  function apply(x: VaultCall, phase: VaultPhase, said: VaultDecision | undefined): void {
    if (said === undefined || said.decision === 'allow') return
    if (said.decision === 'deny')
      throw new VaultError('APPROVAL_DENIED', `The plugin ${place} refuses this: ${said.message}`, {
        details: { plugin: place, code: said.code },
      })
    if (!asking.includes(phase))
      throw new VaultError('PLUGIN_FAILED', `The plugin ${place} wants the owner to be asked too late.`, {
        details: { plugin: place },
      })
    x.requireApproval(`Plugin ${place}: ${said.reason}`)
  }
}

/** What a plugin is told of a request: a copy of its meaning, never its bytes and never a value that is to be stored. */
function pluginView(x: VaultCall): VaultExchange {
  const { operation, requestId, caller, via, startedAtMs, scope, request, reasons, failure } = x
  const { value: _value, ...withoutValue } = x.input
  return {
    operation,
    requestId,
    caller,
    via,
    input: operation === 'vault_write' ? withoutValue : x.input,
    startedAtMs,
    scope,
    request,
    verdict: { decision: reasons.length === 0 ? 'allow' : 'ask', reasons },
    failure: failure && {
      code: isVaultError(failure) ? failure.code : 'INTERNAL_ERROR',
      message: isVaultError(failure) ? failure.message : '',
    },
  }
}
