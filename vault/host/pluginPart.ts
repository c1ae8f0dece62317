import type { AnyVaultPlugin, VaultAnswer, VaultPluginInstance } from '../../core/plugin/vault.ts'
import { VaultError } from '../errors/error.ts'
import type { HostHook, HostHooks, HostPlugin } from './phases/hostPlugin.ts'
import type { VaultCall } from './vaultCall.ts'

/** A plugin of the configuration as a part of the host: what it refuses is written down like every other refusal. */
export function pluginPart(plugin: AnyVaultPlugin, instance: VaultPluginInstance): HostPlugin {
  return {
    name: plugin.name,
    ...(plugin.slots && { slots: plugin.slots }),
    route(operation) {
      const hooks = instance.route(operation)
      if (hooks === undefined) return undefined
      const noted = Object.entries(hooks).map(([phase, hook]) => [phase, noting(plugin.name, hook)])
      return Object.fromEntries(noted) as HostHooks
    },
  }
}

/** A plugin's hook takes less than the whole call; the host's own shape is that of a plugin. */
function noting(name: string, hook: HostHook): HostHook {
  return (x) => {
    const answer = hook(x)
    return answer instanceof Promise ? answer.then((late) => note(x, late)) : note(x, answer)
  }

  function note(x: VaultCall, answer: VaultAnswer | undefined | void): VaultAnswer | undefined | void {
    if (answer !== undefined && answer.status >= 400)
      x.failure ??= new VaultError('APPROVAL_DENIED', `Plugin ${name} refused this.`)
    return answer
  }
}
