import fc from 'fast-check'
import t from 'tap'
import {
  allow,
  decoded,
  effect,
  eth,
  from,
  judge,
  nowMs,
  nowSeconds,
  payee,
  send,
  usdc,
} from '../../test/helpers/vault/policy.ts'
import { pinnedAssets } from '../effects/assets.ts'
import { budgetSpends, type Effect } from '../effects/effect.ts'
import { finish } from '../effects/plainWords.ts'
import { decisionHash } from './decisionHash.ts'
import { isWithinHours, type Policy } from './policy.ts'

t.test('up to the threshold a rule approves, above it the owner does, above the limit nobody', async (t) => {
  t.match(judge(decoded([send(1_000_000n)])), { decision: 'auto' })
  t.match(judge(decoded([send(1_000_001n)])), { decision: 'ask' })
  t.match(judge(decoded([send(5_000_001n)])), { decision: 'deny', code: 'BUDGET_EXCEEDED_TX' })
  t.match(judge(decoded([send(500_000n), send(600_000n)])), { decision: 'ask' }, 'the sum counts')
  t.match(judge(decoded([send(1n)]), {}, [[usdc.id, 20_000_000n]]), {
    decision: 'deny',
    code: 'BUDGET_EXCEEDED_DAILY',
  })
})

t.test('what is not named is refused', async (t) => {
  t.match(judge(decoded([send(1n, eth)])), { decision: 'deny', code: 'SCOPE_DENIED' })
  const listed = { recipients: [{ chain: 'base' as const, address: payee }] }
  t.match(judge(decoded([send(1n)]), listed), { decision: 'auto' })
  const others = { recipients: [{ chain: 'ethereum' as const, address: payee }] }
  t.match(judge(decoded([send(1n)]), others), { decision: 'deny', code: 'SCOPE_DENIED' })
  t.match(judge(decoded([send(1n)]), { ...others, otherRecipients: 'ask' }), { decision: 'ask' })
})

t.test('allowances ask unless the owner says otherwise, and count at their whole value', async (t) => {
  t.match(judge(decoded([allow(1n)])), { decision: 'ask' })
  t.match(judge(decoded([allow(1n)]), { allowances: 'deny' }), { decision: 'deny' })
  t.match(judge(decoded([allow(1_000_000n)]), { allowances: 'auto' }), { decision: 'auto' })
  t.match(judge(decoded([allow(1_000_000n), send(1n)]), { allowances: 'auto' }), { decision: 'ask' })
  t.match(judge(decoded([allow(2n ** 255n)]), { allowances: 'auto' }), { code: 'BUDGET_EXCEEDED_TX' })
})

t.test(
  'what moves nothing is never approved by a rule, and is refused where no rule names its asset',
  async (t) => {
    const open = { allowances: 'auto', messages: 'auto' } as const
    const nothing = { reasons: [/moves nothing/] }
    t.match(judge(decoded([send(0n)], 5n), open), { decision: 'ask', ...nothing }, 'a transfer of nothing')
    t.match(judge(decoded([send(0n), send(1n)], 5n), open), { decision: 'ask' }, 'beside one of something')
    t.match(judge(decoded([{ ...send(5n), to: from } as Effect], 5n), open), nothing, 'to itself')
    t.match(judge(decoded([allow(0n)], 5n), open), nothing, 'taking an allowance back')
    t.match(judge(decoded([], 5n), open), nothing, 'only a fee')
    t.match(judge(decoded([{ kind: 'note', text: 'hi' }], 5n), open), nothing, 'a memo alone')
    t.match(judge(decoded([send(0n, eth)], 5n), open), { decision: 'deny', code: 'SCOPE_DENIED' })
    const stranger: Effect = { ...send(0n, eth), from: payee } as Effect
    t.match(judge(decoded([stranger], 5n), open), { decision: 'deny', code: 'SCOPE_DENIED' }, 'of another')
  },
)

t.test('an allowance that is added to is not taken back by adding nothing', async (t) => {
  const listed = { recipients: [{ chain: 'base' as const, address: from }], allowances: 'auto' } as const
  t.match(judge(decoded([allow(0n)]), listed), { decision: 'ask' }, 'taken back from anybody')
  const added: Effect = { ...allow(0n), isAdded: true } as Effect
  t.match(judge(decoded([added]), listed), { decision: 'deny', code: 'SCOPE_DENIED' })
})

t.test('a signature that is good for more than a day, or begins later, is for the owner', async (t) => {
  const seconds = BigInt(nowMs / 1_000)
  const day = 86_400n
  const authorised = (validBefore: bigint, validAfter = 0n): Effect =>
    ({ ...send(1n), validAfter, validBefore }) as Effect
  t.match(judge(decoded([authorised(seconds + day)])), { decision: 'auto' })
  t.match(judge(decoded([authorised(seconds + day + 1n)])), { reasons: [/more than a day/] })
  t.match(judge(decoded([authorised(2n ** 256n - 1n)])), { decision: 'ask' })
  t.match(judge(decoded([authorised(seconds + day, seconds + 3_600n)])), { decision: 'auto' })
  t.match(judge(decoded([authorised(seconds + day, seconds + 3_601n)])), { reasons: [/not valid yet/] })
  const permit = (submitBefore: bigint): Effect => ({ ...allow(1n), submitBefore }) as Effect
  t.match(judge(decoded([permit(seconds + day)]), { allowances: 'auto' }), { decision: 'auto' })
  t.match(judge(decoded([permit(seconds + day + 1n)]), { allowances: 'auto' }), {
    reasons: [/more than a day/],
  })
})

t.test('an account for somebody else is asked for, and refused where no rule names its token', async (t) => {
  const solUsdc = pinnedAssets.bySymbol('solana', 'USDC')!
  const sol = pinnedAssets.native('solana')
  const us = '4Nd1mYvM4qk4mbyWs6eWc2a8Y4nXyWcK9mW2Wn3qKcZp'
  const them = 'So11111111111111111111111111111111111111112'
  const rule = {
    chain: 'solana',
    symbol: 'USDC',
    perTransaction: '5',
    perDay: '20',
    autoApproveUpTo: '1',
  } as const
  const account = (owner: string): Effect => ({
    kind: 'account',
    account: them,
    owner,
    asset: solUsdc,
    payer: us,
    rent: 2_039_280n,
  })
  const pays: Effect = { kind: 'transfer', asset: solUsdc, amount: 1n, from: us, to: them, via: 'transfer' }
  const on = (effects: readonly Effect[]) =>
    finish(pinnedAssets, {
      ...decoded([]),
      chain: 'solana',
      from: us,
      effects,
      fee: { amount: 5_000n, asset: sol, payer: us },
    })
  const first = on([account(them), pays])
  t.match(judge(on([pays]), { assets: [rule] }), { decision: 'auto' })
  t.match(judge(first, { assets: [rule] }), { decision: 'ask', reasons: [/account of another owner/] })
  t.match(judge(on([...Array(5).fill(account(them)), pays]), { assets: [rule] }), { code: 'FEE_EXCESSIVE' })
  t.match(judge(first, { assets: [{ ...rule, symbol: 'USDT' }] }), { code: 'SCOPE_DENIED' })
  t.match(judge(first), { code: 'SCOPE_DENIED' }, 'rules of another chain')
  t.match(
    budgetSpends(first).filter(({ recipient }) => recipient === them),
    [
      { asset: sol.id, amount: 2_039_280n },
      { asset: solUsdc.id, amount: 1n },
    ],
    'the rent counts for whoever gets it',
  )
})

t.test('opaque requests, texts and foreign money are for the owner', async (t) => {
  const opaque: Effect = { kind: 'opaque', target: payee, reason: 'calls something' }
  t.match(judge(decoded([opaque])), { decision: 'ask' })
  t.match(judge(decoded([opaque]), { opaque: 'deny' }), { decision: 'deny', code: 'TX_OPAQUE' })
  const message = { ...decoded([{ kind: 'note', text: 'hi' }]), kind: 'message' as const }
  t.match(judge(message), { decision: 'ask' })
  t.match(judge(message, { messages: 'auto' }), { decision: 'auto' })
  const long = { ...message, signKind: 'evm-message', signingBytes: Buffer.from('a'.repeat(32)) } as const
  t.match(judge(long, { messages: 'auto' }), { decision: 'ask', reasons: [/as long as a hash/] })
  t.match(judge({ ...long, signKind: 'solana-message' }, { messages: 'auto' }), { decision: 'auto' })
  t.match(judge(decoded([{ ...send(1n), from: payee } as Effect])), { decision: 'ask' })
})

t.test('hours are those of the zone, over midnight too', async (t) => {
  const at = (hour: number, minute = 0) => Date.UTC(2026, 0, 1, hour, minute)
  const day = { fromMinute: 540, toMinute: 1_020, timeZone: 'Europe/Vienna', outside: 'deny' } as const
  t.equal(isWithinHours(day, at(8)), true, '9:00 in Vienna')
  t.equal(isWithinHours(day, at(7, 59)), false)
  t.equal(isWithinHours(day, at(16, 1)), false, '17:01 in Vienna')
  const night = { ...day, fromMinute: 1_320, toMinute: 360 }
  t.equal(isWithinHours(night, at(23)), true)
  t.equal(isWithinHours(night, at(12)), false)
  t.match(judge(decoded([send(1n)]), { hours: night }), { decision: 'deny' })
  t.match(judge(decoded([send(1n)]), { hours: { ...night, outside: 'ask' } }), { decision: 'ask' })
  t.match(judge(decoded([send(1n)]), { hours: day }), { decision: 'auto' })
})

t.test(
  'a rule never approves more than its threshold, its day, anything opaque or another asset',
  async (t) => {
    let automatic = 0
    fc.assert(
      fc.property(
        fc.array(effect, { minLength: 1, maxLength: 4 }),
        fc.bigInt(0n, 10n ** 16n),
        fc.bigInt(0n, 25_000_000n),
        fc.constantFrom<Policy['allowances']>('auto', 'ask', 'deny'),
        (effects, fee, spent, allowances) => {
          const tx = decoded(effects, fee)
          const verdict = judge(tx, { allowances: allowances ?? 'ask', messages: 'auto' }, [[usdc.id, spent]])
          if (verdict.decision !== 'auto') return true
          automatic++
          // Counted again independently, from the effects alone.
          let own = 0n
          let costs = fee
          let isMoving = false
          for (const e of effects) {
            if (e.kind === 'opaque') return false
            if (e.kind === 'account' && (e.owner !== from || e.payer !== from)) return false
            if (e.kind === 'account') costs += e.rent
            if (e.kind === 'transfer' && (e.validBefore ?? 0n) > nowSeconds + 86_400n) return false
            if (e.kind === 'transfer' && (e.validAfter ?? 0n) > nowSeconds + 3_600n) return false
            isMoving ||= e.kind === 'transfer' && e.to !== from
            isMoving ||= e.kind === 'allowance' && e.amount > 0n
            if (e.kind === 'transfer' && (e.from !== from || !e.asset.isPinned)) return false
            if (e.kind === 'transfer' && (e.asset === eth || e.amount === 0n)) return false
            if (e.kind === 'allowance' && e.amount > 0n && allowances !== 'auto') return false
            if ((e.kind === 'transfer' && e.asset === usdc) || e.kind === 'allowance') own += e.amount
          }
          return isMoving && own <= 1_000_000n && own + spent <= 20_000_000n && costs <= 10n ** 14n
        },
      ),
      { numRuns: 5_000, examples: [[[send(1n)], 0n, 0n, 'ask']] },
    )
    t.ok(automatic > 0, `${automatic} were approved`)
  },
)

t.test('an approval of one request is never one of another', async (t) => {
  const data = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.string({ unit: 'binary' }),
      fc.integer(),
      fc.double(),
      fc.bigInt(),
      fc.boolean(),
      fc.constant(null),
      fc.uint8Array({ maxLength: 4 }),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.string({ maxLength: 3 }), tie('value'), { maxKeys: 3, noNullPrototype: true }),
    ),
  })).value
  const auto = { decision: 'auto' } as const
  fc.assert(
    fc.property(data, data, (a, b) => {
      const isSame = fc.stringify(a) === fc.stringify(b)
      return (
        (decisionHash({ request: a, verdict: auto }) === decisionHash({ request: b, verdict: auto })) ===
        isSame
      )
    }),
    { numRuns: 3_000 },
  )
  const tx = decoded([send(1n)])
  const hash = (change: object) =>
    decisionHash({ request: { agent: 'a' }, decoded: tx, verdict: auto, ...change })
  const hashes = [
    hash({}),
    hash({ request: { agent: 'b' } }),
    hash({ decoded: decoded([send(2n)]) }),
    hash({ decoded: { ...tx, signingBytes: Uint8Array.of(2) } }),
    hash({ decoded: { ...tx, warnings: ['x'] } }),
    hash({ verdict: { decision: 'ask', reasons: [] } }),
    hash({ decoded: undefined }),
  ]
  t.equal(new Set(hashes).size, hashes.length)
  t.equal(hash({}), hash({ request: { agent: 'a', note: undefined } }), 'the same request again')
  t.throws(() => hash({ request: new Map() }), TypeError)
})
