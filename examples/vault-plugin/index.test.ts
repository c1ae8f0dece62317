import t from 'tap'
import type { PluginEnv, VaultExchange, VaultOperation } from 'tollgate/plugin'
import plugin from './index.ts'

type Options = Parameters<typeof plugin.setup>[0]

/** Why the owner would be asked for one request at a time of day. */
function reasonsFor(
  operation: VaultOperation,
  at: string,
  change: Partial<Options> = {},
  url = '',
): string[] {
  const options: Options = { hosts: [], quietFrom: '22:00', quietTo: '07:00', timeZone: 'UTC', ...change }
  const clock = { now: () => Date.parse(`2026-01-15T${at}:00Z`) }
  const { route } = plugin.setup(options, { ports: { clock } } as unknown as PluginEnv<'clock'>)
  const reasons: string[] = []
  // The part of a request that the plugin looks at.
  const x = { input: { url }, requireApproval: (reason: string) => reasons.push(reason) }
  route(operation)?.authorize(x as unknown as VaultExchange)
  return reasons
}

t.test('at night everything that is signed or called is asked for', async (t) => {
  for (const [at, count] of [
    ['21:59', 0],
    ['22:00', 1],
    ['03:30', 1],
    ['06:59', 1],
    ['07:00', 0],
  ] as const)
    t.equal(reasonsFor('vault_sign_tx', at).length, count, at)
  t.equal(reasonsFor('vault_sign_tx', '21:30', { timeZone: 'Europe/Paris' }).length, 1, 'it is 22:30 there')
  t.equal(reasonsFor('vault_sign_tx', '23:00', { quietFrom: '12:00', quietTo: '13:00' }).length, 0)
  t.equal(reasonsFor('vault_sign_tx', '23:00', { quietFrom: '00:00', quietTo: '00:00' }).length, 0)
})

t.test('a call of a host that is not on the list is asked for', async (t) => {
  const hosts = ['API.example.com', 'other.example:8443']
  const call = (url: string) => reasonsFor('vault_call', '12:00', { hosts }, url).length
  t.equal(call('https://api.example.com/v1'), 0)
  t.equal(call('https://other.example:8443/'), 0)
  for (const url of [
    'https://evil.example/',
    'https://other.example/',
    'https://api.example.com.evil.example/',
    'https://api.example.com@evil.example/',
  ])
    t.equal(call(url), 1, url)
})

t.test('what costs nothing is left alone, at any time', async (t) => {
  t.strictSame(reasonsFor('get_address', '03:00'), [])
  t.strictSame(reasonsFor('vault_preview', '03:00'), [])
})
