import fc from 'fast-check'
import { pinnedAssets, unknownAsset } from '../../../vault/effects/assets.ts'
import type { Decoded, Effect } from '../../../vault/effects/effect.ts'
import { finish } from '../../../vault/effects/plainWords.ts'
import { evaluate } from '../../../vault/policy/evaluate.ts'
import type { Policy } from '../../../vault/policy/policy.ts'

export const from = '0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1'

export const payee = '0x5050A4F4b3f9338C3472dcC01A87C76A144b3c9c'

export const usdc = pinnedAssets.bySymbol('base', 'USDC')!

export const eth = pinnedAssets.native('base')

const unknown = unknownAsset(pinnedAssets.chains.of('base'), payee)

export const nowMs = Date.UTC(2026, 0, 1, 12)

export const nowSeconds = BigInt(nowMs / 1_000)

export const policy: Policy = {
  assets: [{ chain: 'base', symbol: 'USDC', perTransaction: '5', perDay: '20', autoApproveUpTo: '1' }],
  recipients: 'any',
}

export function decoded(effects: readonly Effect[], feeAmount = 0n): Decoded {
  return finish(pinnedAssets, {
    kind: 'transaction',
    chain: 'base',
    from,
    effects,
    fee: { amount: feeAmount, asset: eth, payer: from },
    warnings: [],
    frozenBytes: Uint8Array.of(1),
    signingBytes: Uint8Array.of(1),
    signKind: 'evm-transaction',
    encoding: 'hex',
  })
}

export const send = (amount: bigint, asset = usdc): Effect => ({
  kind: 'transfer',
  asset,
  amount,
  from,
  to: payee,
  via: 'transfer',
})

export const allow = (amount: bigint): Effect => ({
  kind: 'allowance',
  asset: usdc,
  amount,
  isUnlimited: false,
  owner: from,
  spender: payee,
  via: 'approve',
})

export const judge = (tx: Decoded, change: Partial<Policy> = {}, spent: [string, bigint][] = []) =>
  evaluate({ decoded: tx, policy: { ...policy, ...change }, nowMs, spentToday: new Map(spent) })

export const amount = fc.oneof(
  fc.constantFrom(0n, 1n, 999_999n, 1_000_000n, 1_000_001n),
  fc.bigInt(0n, 2n ** 256n - 1n),
)

export const effect: fc.Arbitrary<Effect> = fc.oneof(
  fc.tuple(amount, fc.constantFrom(usdc, eth), fc.constantFrom(from, payee)).map(
    ([a, asset, payer]): Effect => ({
      ...(send(a, asset) as Extract<Effect, { kind: 'transfer' }>),
      from: payer,
    }),
  ),
  amount.map(allow),
  amount.map((a): Effect => ({ ...(send(a) as Extract<Effect, { kind: 'transfer' }>), asset: unknown })),
  fc.constant<Effect>({ kind: 'opaque', target: payee, reason: 'x' }),
  fc.string().map((text): Effect => ({ kind: 'note', text })),
  amount.map((a): Effect => ({ ...(send(a) as Extract<Effect, { kind: 'transfer' }>), to: from })),
  fc.constantFrom(0n, 5n).map((a): Effect => ({ ...allow(a), isAdded: true }) as Effect),
  fc
    .record({
      owner: fc.constantFrom(from, payee),
      payer: fc.constantFrom(from, payee),
      rent: fc.bigInt(0n, 2n ** 40n),
    })
    .map((parts): Effect => ({ kind: 'account', account: payee, asset: usdc, ...parts })),
  fc
    .tuple(fc.bigInt(0n, 2n * 86_400n), fc.bigInt(0n, 2n * 86_400n))
    .map(
      ([after, before]): Effect =>
        ({ ...send(1n), validAfter: nowSeconds + after, validBefore: nowSeconds + before }) as Effect,
    ),
)
