import type { VaultOperation, VaultPlugin } from 'tollgate/plugin'
import { options } from './options.ts'

/** Operations that may need approval. Reading an address or a budget does not. */
const watched: readonly VaultOperation[] = [
  'vault_call',
  'vault_sign_tx',
  'vault_sign_typed_data',
  'vault_sign_message',
  'vault_sign_x402',
]

/**
 * Requires approval for calls to unknown hosts, and for everything at night. It can only make the rules
 * stricter.
 */
export default {
  name: 'ask-more',
  api: 1,
  options,
  needs: ['clock'],
  // Runs after the vault's own rules, which write the verdict. If no plugin before it does, the vault does
  // not start.
  slots: { authorize: { reads: ['verdict'] } },
  setup({ hosts, quietFrom, quietTo, timeZone }, { ports: { clock } }) {
    const known = new Set(hosts.map((host) => host.toLowerCase()))
    const format = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' })
    const isQuiet = (): boolean => {
      const now = format.format(clock.now())
      return quietFrom <= quietTo ? now >= quietFrom && now < quietTo : now >= quietFrom || now < quietTo
    }
    return {
      // Called once per operation. Undefined means that the plugin is not in its pipeline and costs nothing.
      route(operation) {
        if (!watched.includes(operation)) return undefined
        return {
          authorize(x) {
            if (isQuiet()) return { decision: 'ask', reason: `It is between ${quietFrom} and ${quietTo}.` }
            if (operation !== 'vault_call') return undefined
            // The vault has already parsed the address and rejected an invalid one.
            const { host } = new URL(String(x.input['url']))
            if (known.has(host)) return undefined
            return { decision: 'ask', reason: `${host} is not on the list of hosts.` }
          },
        }
      },
    }
  },
} satisfies VaultPlugin<typeof options, 'clock'>
