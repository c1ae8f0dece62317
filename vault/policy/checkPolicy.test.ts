import t from 'tap'
import { payee, policy, usdc } from '../../test/helpers/vault/policy.ts'
import { pinnedAssets } from '../effects/assets.ts'
import { checkPolicy } from './checkPolicy.ts'
import { budgetLimits } from './policy.ts'

t.test('a policy is checked when it is stored', async (t) => {
  t.match(checkPolicy(policy, pinnedAssets), { ok: true })
  const [rule] = policy.assets
  for (const [why, change] of [
    ['an unknown field', { limit: 1 }],
    ['an asset twice', { assets: [rule, rule] }],
    ['an unknown asset', { assets: [{ ...rule, symbol: 'DOGE' }] }],
    ['an inherited chain name', { assets: [{ ...rule, chain: 'constructor' }] }],
    ['a threshold above the limit', { assets: [{ ...rule, autoApproveUpTo: '6' }] }],
    ['a limit above the day', { assets: [{ ...rule, perTransaction: '21' }] }],
    ['too many decimals', { assets: [{ ...rule, perDay: '20.0000001' }] }],
    ['an exponent', { assets: [{ ...rule, perDay: '1e3' }] }],
    ['a number', { assets: [{ ...rule, perDay: 20 }] }],
    ['a false address', { recipients: [{ chain: 'base', address: payee.toLowerCase() }] }],
    ['a false zone', { hours: { fromMinute: 0, toMinute: 1, timeZone: 'Mars/X', outside: 'ask' } }],
    ['a false choice', { opaque: 'auto' }],
    ['no recipients', { recipients: undefined }],
    ['a recipient without an address', { recipients: [{ chain: 'base' }] }],
    [
      'an amount that is missing',
      { assets: [{ chain: 'base', symbol: 'USDC', perTransaction: '5', autoApproveUpTo: '1' }] },
    ],
    ['a fee of no chain', { fees: [{ perDay: '1' }] }],
  ] as const) {
    t.match(checkPolicy({ ...policy, ...change }, pinnedAssets), { ok: false, message: /Expected/ }, why)
  }
  const fee = { chain: 'base', perDay: '0.01' }
  for (const [change, message] of [
    [{ recipient: 'any' }, /"recipient"\. Did you mean recipients\?$/],
    [
      { assets: [rule, { ...rule, autoAproveUpTo: '1' }] },
      /"autoAproveUpTo"\. Did you mean autoApproveUpTo\?$/,
    ],
    [{ assets: [{ ...rule, perDay: 20 }] }, /Got perDay without quotes/],
    [{ assets: [{ symbol: 'USDC' }] }, /Got an entry without chain\.$/],
    [{ assets: [{ ...rule, chain: 'bse' }] }, /base, .*got "bse"\. Did you mean base\?$/],
    [
      { assets: [{ ...rule, symbol: 'usdc' }] },
      /on base \(ETH, USDC, USDT\), got "usdc"\. Did you mean USDC\?$/,
    ],
    [{ fees: [{ ...fee, chain: 'bse' }] }, /got "bse"\. Did you mean base\?$/],
    [{ fees: [fee, fee] }, /one fee rule for base/],
  ] as const) {
    t.match(checkPolicy({ ...policy, ...change }, pinnedAssets), { ok: false, message }, 'the slip is named')
  }
  const limits = budgetLimits(policy, 'a', pinnedAssets)
  t.match(
    limits.find((limit) => limit.asset === usdc.id),
    { perTransaction: 5_000_000n, perDay: 20_000_000n },
  )
  t.ok(limits.every((limit) => (limit.perDay ?? 0n) > 0n))
})
