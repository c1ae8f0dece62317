import t from 'tap'
import type { PluginEnv, VaultExchange, VaultOperation } from 'tollgate/plugin'
import plugin from './index.ts'

type Options = Parameters<typeof plugin.setup>[0]

/** The plugin's decision about one request at a time of day. */
function decisionOf(operation: VaultOperation, at: string, change: Partial<Options> = {}, url = ''): string {
  const options: Options = { hosts: [], quietFrom: '22:00', quietTo: '07:00', timeZone: 'UTC', ...change }
  const clock = { now: () => Date.parse(`2026-01-15T${at}:00Z`) }
  const { route } = plugin.setup(options, { ports: { clock } } as unknown as PluginEnv<'clock'>)
  // The part of a request that the plugin reads.
  const x = { input: { url } } as unknown as VaultExchange
  return route(operation)?.authorize(x)?.decision ?? 'nothing'
}

t.test('at night everything that is signed or called is asked for', async (t) => {
  for (const [at, lines] of [
    ['21:59', 'nothing'],
    ['22:00', 'ask'],
    ['03:30', 'ask'],
    ['06:59', 'ask'],
    ['07:00', 'nothing'],
  ] as const)
    t.equal(decisionOf('vault_sign_tx', at), lines, at)
  t.equal(decisionOf('vault_sign_tx', '21:30', { timeZone: 'Europe/Paris' }), 'ask', 'it is 22:30 there')
  t.equal(decisionOf('vault_sign_tx', '23:00', { quietFrom: '12:00', quietTo: '13:00' }), 'nothing')
  t.equal(decisionOf('vault_sign_tx', '23:00', { quietFrom: '00:00', quietTo: '00:00' }), 'nothing')
})

t.test('a call of a host that is not on the list is asked for', async (t) => {
  const hosts = ['API.example.com', 'other.example:8443']
  const call = (url: string) => decisionOf('vault_call', '12:00', { hosts }, url)
  t.equal(call('https://api.example.com/v1'), 'nothing')
  t.equal(call('https://other.example:8443/'), 'nothing')
  for (const url of [
    'https://evil.example/',
    'https://other.example/',
    'https://api.example.com.evil.example/',
    'https://api.example.com@evil.example/',
  ])
    t.equal(call(url), 'ask', url)
})

t.test('what costs nothing is left alone, at any time', async (t) => {
  t.equal(decisionOf('get_address', '03:00'), 'nothing')
  t.equal(decisionOf('vault_preview', '03:00'), 'nothing')
})
