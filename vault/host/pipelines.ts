import { checkOrder, lineUp } from '../../core/kernel/order.ts'
import { closePlugins, GenerationError } from '../../core/kernel/readyPlugin.ts'
import { passed, run } from '../../core/kernel/run.ts'
import {
  type PluginStore,
  type VaultDecision,
  type VaultExchange,
  type VaultOperation,
  type VaultPhase,
  type VaultPortName,
  type VaultResponse,
  vaultOperations,
  vaultPhases,
} from '../../core/plugin/vault.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import type { Records } from '../ports/records.ts'
import { type FoundPlugin, filesOf } from '../sandbox/findPlugin.ts'
import type { HostPorts } from '../sandbox/portServer.ts'
import {
  defaultPluginLimits,
  type PluginLimits,
  type SandboxedPlugin,
  startPlugin,
} from '../sandbox/sandboxedPlugin.ts'
import type { HostHook, HostHooks, HostPlugin, VaultCall } from './vaultCall.ts'

/** A plugin from the configuration, with validated options. */
export interface VaultPluginEntry {
  readonly plugin: FoundPlugin
  readonly options: unknown
  /** True for a plugin that may decide approvals in the owner's name (port `approvals`). Built-in plugins may. */
  readonly mayAnswer?: boolean
}

/** The pipeline of each operation, built once when the vault starts. */
export interface Pipelines {
  /** Runs one request through its operation's pipeline, including its log entry. @throws the refusal or failure */
  run(x: VaultCall): Promise<VaultResponse>
  start(): void
  close(): Promise<void>
}

interface Pipeline {
  readonly hooks: readonly HostHook[]
  readonly audits: readonly HostHook[]
}

/** The names of the ports that a plugin may need. */
const portNames: readonly string[] = [
  'approvals',
  'clock',
  'egress',
  'log',
  'store',
] satisfies readonly VaultPortName[]

/**
 * Builds the pipelines from the host's own parts and the owner's plugins. In each phase the plugins run after the host's parts.
 * Each plugin runs in its own process. Without plugins no such process is started.
 *
 * @param portsOf returns the ports of a plugin by its id, such as `telegram`, or `telegram-2` for a second one
 * @throws {GenerationError} that names the plugin. Its setup failed, it has hooks of the gateway, or it reads a slot that no
 *   earlier part writes. All plugins are closed then
 */
export async function buildPipelines(
  own: readonly HostPlugin[],
  entries: readonly VaultPluginEntry[],
  portsOf: (pluginId: string) => HostPorts,
  limits: PluginLimits = defaultPluginLimits,
): Promise<Pipelines> {
  const plugins: SandboxedPlugin[] = []
  const parts: HostPlugin[] = [...own]
  const pluginIds = new Set<string>()
  try {
    for (const entry of entries) {
      const { name, slots } = entry.plugin
      const pluginId = pluginIdFor(name, pluginIds)
      pluginIds.add(pluginId)
      const plugin = await start(entry, pluginId, portsOf(pluginId), limits)
      plugins.push(plugin)
      parts.push(pluginPart(name, pluginId, slots, plugin))
    }
    return lined(parts, plugins)
  } catch (error) {
    // The error of the setup is reported, even if closing fails too.
    await closePlugins(plugins).catch(() => undefined)
    throw error
  }
}

/** The id of a plugin and of its store. It is the plugin's name or, if taken, the first free id among `name-2`, `name-3` … */
function pluginIdFor(name: string, taken: ReadonlySet<string>): string {
  let pluginId = name
  for (let time = 2; taken.has(pluginId); time++) pluginId = `${name}-${time}`
  return pluginId
}

async function start(
  { plugin, options, mayAnswer = plugin.where.isBuiltIn }: VaultPluginEntry,
  pluginId: string,
  ports: HostPorts,
  limits: PluginLimits,
): Promise<SandboxedPlugin> {
  const { name, needs, where } = plugin
  const unknown = needs.find((need) => !portNames.includes(need))
  if (unknown !== undefined)
    throw new GenerationError(`Plugin ${name} needs ${unknown}, which this vault does not have.`)
  if (needs.includes('approvals') && !mayAnswer)
    throw new GenerationError(
      `Plugin ${name} asks to decide approvals in your name. To allow it, set \`mayAnswer: true\` next to the plugin's \`use\`.`,
    )
  try {
    return await startPlugin(
      { name, needs, where, options, files: filesOf(plugin, options) },
      pluginId,
      ports,
      limits,
    )
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new GenerationError(`Plugin ${name} failed its setup: ${reason}`, { cause })
  }
}

function lined(parts: readonly HostPlugin[], plugins: readonly SandboxedPlugin[]): Pipelines {
  const programs = new Map(vaultOperations.map((operation) => [operation, compile(operation, parts)]))
  return {
    async run(x) {
      const { hooks, audits } = programs.get(x.operation)!
      try {
        const response = await run<VaultCall, VaultResponse>(hooks, x)
        if (response === passed) throw new Error(`No part of the vault answers ${x.operation}.`)
        return response as VaultResponse
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
    // All plugins close at the same time, because each may take some seconds and the vault stays open meanwhile.
    close: async () => void (await Promise.all(plugins.map((plugin) => plugin.close()))),
  }
}

function compile(operation: VaultOperation, parts: readonly HostPlugin[]): Pipeline {
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

/**
 * Refuses hooks of a misspelled phase or of a gateway plugin. They would never be called, although their rule looks as if it
 * applied.
 */
function assertPhases(plugin: string, hooks: object): void {
  const unknown = Object.keys(hooks).filter((name) => !(vaultPhases as readonly string[]).includes(name))
  if (unknown.length === 0) return
  throw new GenerationError(
    `Plugin ${plugin} has hooks for ${unknown.join(', ')}, which are not phases of the vault. Expected: ${vaultPhases.join(', ')}.`,
  )
}

/** Phases in which a plugin may still require approval. */
const asking: readonly VaultPhase[] = ['identify', 'authorize']

/**
 * Wraps a plugin of the configuration as a part of the host. The plugin gets a view of each request. It can only make the
 * verdict stricter.
 */
function pluginPart(
  name: string,
  pluginId: string,
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
        // The action is done, so this hook cannot change the response. A failure of the hook is logged.
        plugin.decide(phase, pluginView(x)).catch(() => undefined)
      }
    return async (x) => apply(x, phase, await plugin.decide(phase, pluginView(x)))
  }

  function apply(x: VaultCall, phase: VaultPhase, decision: VaultDecision | undefined): void {
    if (decision === undefined || decision.decision === 'allow') return
    if (decision.decision === 'deny')
      throw new VaultError(
        'APPROVAL_DENIED',
        `The plugin ${pluginId} refused the request: ${decision.message}`,
        {
          details: { plugin: pluginId, code: decision.code },
        },
      )
    if (!asking.includes(phase))
      throw new VaultError(
        'PLUGIN_FAILED',
        `The plugin ${pluginId} asked for approval in a phase where approval is no longer possible.`,
        {
          details: { plugin: pluginId },
        },
      )
    x.requireApproval(`Plugin ${pluginId}: ${decision.reason}`)
  }
}

/** The view of a request for a plugin. It is a copy of the meaning, without bytes and without values to be stored. */
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

const MAX_BYTES = 65_536

/** One plugin's store. It is a record that no other plugin and no agent can name. @param pluginId see `buildPipelines` */
export function createPluginStore(records: Records, pluginId: string): PluginStore {
  const id = `plugin-${pluginId}`
  return {
    read: () => records.getJson<unknown>('state', id),
    async write(value) {
      const text = JSON.stringify(value)
      if (text === undefined || Buffer.byteLength(text) > MAX_BYTES)
        throw new VaultError('VALIDATION_ERROR', `Expected JSON of at most ${MAX_BYTES} bytes.`)
      await records.put('state', id, text)
    },
  }
}
