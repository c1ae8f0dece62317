import type { VaultOperation, VaultPlugin } from 'tollgate/plugin'
import { options } from './options.ts'

/** What is worth a question; reading an address or one's budget is not. */
const watched: readonly VaultOperation[] = [
  'vault_call',
  'vault_sign_tx',
  'vault_sign_typed_data',
  'vault_sign_message',
  'vault_sign_x402',
]

/** Asks the owner for calls of unknown hosts, and for everything at night. It can only ask more often, never less. */
export default {
  name: 'ask-more',
  api: 1,
  options,
  needs: ['clock'],
  // After the vault's own rules, which write the verdict: an order in which nobody does stops the start.
  slots: { authorize: { reads: ['verdict'] } },
  setup({ hosts, quietFrom, quietTo, timeZone }, { ports: { clock } }) {
    const known = new Set(hosts.map((host) => host.toLowerCase()))
    const format = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' })
    const isQuiet = (): boolean => {
      const now = format.format(clock.now())
      return quietFrom <= quietTo ? now >= quietFrom && now < quietTo : now >= quietFrom || now < quietTo
    }
    return {
      // Once per operation: undefined means that the plugin is not in its program and costs it nothing.
      route(operation) {
        if (!watched.includes(operation)) return undefined
        return {
          authorize(x) {
            if (isQuiet()) return { decision: 'ask', reason: `It is between ${quietFrom} and ${quietTo}.` }
            if (operation !== 'vault_call') return undefined
            // The vault has read the address before and refused what is none.
            const { host } = new URL(String(x.input['url']))
            if (known.has(host)) return undefined
            return { decision: 'ask', reason: `${host} is not on the list of hosts.` }
          },
        }
      },
    }
  },
} satisfies VaultPlugin<typeof options, 'clock'>
