import type { VaultDecision, VaultExchange, VaultPhase } from '../../core/plugin/vault.ts'
import { isVaultError, VaultError } from '../errors/error.ts'
import type { SandboxedPlugin } from '../sandbox/sandboxedPlugin.ts'
import type { HostHook, HostHooks, HostPlugin } from './phases/hostPlugin.ts'
import type { VaultCall } from './vaultCall.ts'

/** Phases in which a plugin may still have the owner asked. */
const asking: readonly VaultPhase[] = ['identify', 'authorize']

/** A plugin of the configuration as a part of the host: it is told of a request, and can make its verdict stricter. */
export function pluginPart(
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
