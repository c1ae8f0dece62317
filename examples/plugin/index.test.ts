import t from 'tap'
import type { Exchange, PluginEnv, RouteInfo } from 'tollgate/plugin'
import plugin from './index.ts'

const log = { debug() {}, info() {}, warn() {}, error() {} }
const paid = { isPaid: true } as RouteInfo
const free = { isPaid: false } as RouteInfo

const denying = (...wallets: string[]) =>
  plugin.setup({ wallets }, { ports: { log } } as unknown as PluginEnv<'log'>)

/** The part of a call that the plugin reads. */
const callOf = (payer: string) =>
  ({ payment: { identity: { payer } }, link: { id: '1' }, errorCode: null }) as unknown as Exchange

t.test('a wallet of the list is refused in any case, and nobody else is', async (t) => {
  const hooks = denying('0xABC', '7xKX').route(paid)
  t.equal(hooks?.claim(callOf('0xabc'))?.status, 403)
  t.equal(hooks?.claim(callOf('7xKX'))?.status, 403)
  t.equal(hooks?.claim(callOf('0xdef')), undefined)
})

t.test('a free link, and an empty list, leave the plugin out of the program', async (t) => {
  t.equal(denying('0xabc').route(free), undefined)
  t.equal(denying().route(paid), undefined)
})
