import fc from 'fast-check'
import t from 'tap'
import { formatAmount } from '../../core/domain/money.ts'
import {
  createAssetTable,
  pinnedAssets,
  pinnedChains,
  unknownAsset,
  type VaultChain,
} from '../effects/assets.ts'
import { budgetSpends, type Decoded, type Effect, feesId, spendOf } from '../effects/effect.ts'
import { finish } from '../effects/plainWords.ts'
import { checkPolicy } from './checkPolicy.ts'
import { decisionHash } from './decisionHash.ts'
import { evaluate } from './evaluate.ts'
import { budgetLimits, feeLimitsOf, isWithinHours, type Policy } from './policy.ts'

const from = '0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1'
const payee = '0x5050A4F4b3f9338C3472dcC01A87C76A144b3c9c'
const usdc = pinnedAssets.bySymbol('base', 'USDC')!
const eth = pinnedAssets.native('base')
const unknown = unknownAsset(pinnedAssets.chains.of('base'), payee)
const nowMs = Date.UTC(2026, 0, 1, 12)
const nowSeconds = BigInt(nowMs / 1_000)

const policy: Policy = {
  assets: [{ chain: 'base', symbol: 'USDC', perTransaction: '5', perDay: '20', autoApproveUpTo: '1' }],
  recipients: 'any',
}

function decoded(effects: readonly Effect[], feeAmount = 0n): Decoded {
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

const send = (amount: bigint, asset = usdc): Effect => ({
  kind: 'transfer',
  asset,
  amount,
  from,
  to: payee,
  via: 'transfer',
})
const allow = (amount: bigint): Effect => ({
  kind: 'allowance',
  asset: usdc,
  amount,
  isUnlimited: false,
  owner: from,
  spender: payee,
  via: 'approve',
})
const judge = (tx: Decoded, change: Partial<Policy> = {}, spent: [string, bigint][] = []) =>
  evaluate({ decoded: tx, policy: { ...policy, ...change }, nowMs, spentToday: new Map(spent) })

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

t.test(
  'what is unusually large is asked for: networks may charge for its bytes beside the fee',
  async (t) => {
    const sized = (bytes: number, more: Partial<Decoded> = {}) =>
      judge({ ...decoded([send(1_000_000n)]), frozenBytes: new Uint8Array(bytes), ...more })
    t.equal(sized(2_048).decision, 'auto')
    t.match(sized(2_049), { decision: 'ask', reasons: [/2049 bytes/] })
    t.equal(sized(9_999, { signKind: 'evm-typed-data' }).decision, 'auto', 'typed data is not sent')
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

t.test('fees have limits of their own, which follow from what may be spent', async (t) => {
  const usual = 10n ** 14n
  const spentOnFees = (amount: bigint): [string, bigint][] => [[feesId(eth), amount]]
  t.match(judge(decoded([send(1n)], usual)), { decision: 'auto' })
  t.match(judge(decoded([send(1n)], usual + 1n)), { decision: 'ask' })
  t.match(judge(decoded([send(1n)], 4n * usual)), { decision: 'ask' }, '20 a day are 4 payments of 5')
  t.match(judge(decoded([send(1n)], 4n * usual + 1n)), { decision: 'deny', code: 'FEE_EXCESSIVE' })
  t.match(judge(decoded([send(1n)], usual), {}, spentOnFees(3n * usual)), { decision: 'auto' })
  t.match(judge(decoded([send(1n)], usual), {}, spentOnFees(3n * usual + 1n)), {
    code: 'BUDGET_EXCEEDED_DAILY',
  })
  const fees = [{ chain: 'base' as const, perTransaction: '0.00001', autoApproveUpTo: '0' }]
  t.match(judge(decoded([send(1n)], 1n), { fees }), { decision: 'ask' })
  t.match(judge(decoded([send(1n)], usual), { fees }), { decision: 'deny', code: 'FEE_EXCESSIVE' })
})

t.test('a chain that no rule names has no room for fees', async (t) => {
  const opaque: Effect = { kind: 'opaque', target: payee, reason: 'calls something' }
  const assets = [{ ...policy.assets[0]!, chain: 'ethereum' as const }]
  t.match(judge(decoded([opaque], 1n), { assets }), { decision: 'deny', code: 'SCOPE_DENIED' })
  t.match(judge(decoded([], 1n), { assets: [] }), { decision: 'deny', code: 'SCOPE_DENIED' })
  const none = [{ ...policy.assets[0]!, perTransaction: '0', autoApproveUpTo: '0' }]
  t.match(judge(decoded([opaque], 1n), { assets: none }), { code: 'SCOPE_DENIED' }, 'a rule for nothing')
  t.match(judge(decoded([opaque], 1n), { assets, fees: [{ chain: 'base' }] }), { decision: 'ask' })
  const limits = budgetLimits(policy, 'a', pinnedAssets)
  t.strictSame(
    limits.map(({ asset }) => asset).sort(),
    [usdc.id, eth.id, feesId(eth)].sort(),
    'the budget book has limits for the chains of the rules only, and what has none is refused before',
  )
})

t.test(
  'what fees leave open follows from the rest of the rule, and rent from the program of the token',
  async (t) => {
    const [rule] = policy.assets
    const usual = 10n ** 14n
    const of = (fees: object, assets: Policy['assets'] = [rule!]) => {
      const limits = feeLimitsOf(
        { ...policy, assets, fees: [{ chain: 'base', ...fees }] },
        'base',
        pinnedAssets,
      )!
      return [limits.autoApproveUpTo, limits.perTransaction, limits.perDay].map((amount) =>
        Number(amount / (usual / 10n)),
      )
    }
    t.strictSame(of({}), [10, 40, 40])
    t.strictSame(of({}, []), [10, 10, 10], 'fees for a chain without an asset')
    t.strictSame(of({ perTransaction: '0.00005' }), [5, 5, 20])
    t.strictSame(of({ perDay: '1' }), [10, 200, 100_000], 'the pinned bound of one')
    t.strictSame(of({ autoApproveUpTo: '0.001' }), [100, 200, 400])
    t.strictSame(of({}, [rule!, { ...rule!, symbol: 'USDT', perDay: '1000' }]), [10, 100, 100], 'ten at most')

    const big = {
      chain: 'solana',
      symbol: 'BIG',
      address: 'So11111111111111111111111111111111111111112',
      decimals: 6,
    }
    const table = createAssetTable([{ ...big, program: 'token-2022' }])
    const once = { ...rule!, chain: 'solana', perDay: '5' }
    const ofSolana = (symbol: string) =>
      feeLimitsOf({ ...policy, assets: [{ ...once, symbol }] }, 'solana', table)
    t.match(ofSolana('USDC'), { perDay: 200_000n + 2_039_280n, autoApproveUpTo: 200_000n })
    t.match(ofSolana('BIG'), { perDay: 200_000n + 4_900_000n, autoApproveUpTo: 200_000n })
    t.match(ofSolana('SOL'), { perDay: 200_000n })
  },
)

t.test('five dollars a day are no hundredth of an ether in fees, however they are divided', async () => {
  const text = (units: bigint) => formatAmount(units, 6)
  fc.assert(
    fc.property(
      fc.constantFrom<VaultChain>('ethereum', 'base', 'base-sepolia', 'solana', 'solana-devnet'),
      fc.bigInt(1n, 5_000_000n),
      fc.bigInt(0n, 5_000_000n),
      (chain, perTransaction, auto) => {
        const rule = {
          chain,
          symbol: 'USDC',
          perTransaction: text(perTransaction),
          perDay: '5',
          autoApproveUpTo: text(auto % (perTransaction + 1n)),
        }
        const limits = feeLimitsOf({ ...policy, assets: [rule] }, chain, pinnedAssets)!
        const { usualFee, maxFee } = pinnedChains.of(chain)
        const isOrdered =
          limits.autoApproveUpTo <= limits.perTransaction && limits.perTransaction <= limits.perDay
        const most = chain.startsWith('solana') ? 25_000_000n : 10n ** 16n
        return (
          isOrdered && limits.perDay >= usualFee && limits.perDay <= most && limits.perTransaction <= maxFee
        )
      },
    ),
  )
})

t.test('what is sent of the native asset and its fee come out of one purse', async (t) => {
  const assets = [
    {
      chain: 'base',
      symbol: 'ETH',
      perTransaction: '0.01',
      perDay: '0.01',
      autoApproveUpTo: '0.01',
    } as const,
  ]
  const hundredth = 10n ** 16n
  t.match(judge(decoded([send(hundredth - 5n, eth)], 5n), { assets }), { decision: 'auto' })
  t.match(judge(decoded([send(hundredth - 5n, eth)], 6n), { assets }), { code: 'BUDGET_EXCEEDED_DAILY' })
  const nativeDay = (rules: Policy['assets']) =>
    budgetLimits(
      { ...policy, assets: rules, fees: [{ chain: 'base', perDay: '1' }] },
      'a',
      pinnedAssets,
    ).find(({ asset }) => asset === eth.id)?.perDay
  t.equal(nativeDay(assets), hundredth, 'however many ask at once, and whatever room there is for fees')
  t.equal(nativeDay(policy.assets), 100n * hundredth, 'without a rule of its own it holds the fees only')
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

const amount = fc.oneof(
  fc.constantFrom(0n, 1n, 999_999n, 1_000_000n, 1_000_001n),
  fc.bigInt(0n, 2n ** 256n - 1n),
)
const effect: fc.Arbitrary<Effect> = fc.oneof(
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

t.test(
  'however an agent divides a day, rules approve no more of fees than the day has room for',
  async (t) => {
    const requests = fc.array(
      fc.tuple(fc.array(effect, { minLength: 1, maxLength: 2 }), fc.bigInt(0n, 10n ** 14n)),
      { minLength: 30, maxLength: 60 },
    )
    const room = feeLimitsOf(policy, 'base', pinnedAssets)!.perDay
    let most = 0n
    fc.assert(
      fc.property(requests, (asked) => {
        const spent = new Map<string, bigint>()
        for (const [effects, fee] of asked) {
          // Includes a transfer each time, so that many are approved.
          const tx = decoded([...effects, send(1n)], fee)
          if (judge(tx, { allowances: 'auto', messages: 'auto' }, [...spent]).decision !== 'auto') continue
          for (const { asset, amount } of budgetSpends(tx))
            spent.set(asset, (spent.get(asset) ?? 0n) + amount)
        }
        const paid = spent.get(feesId(eth)) ?? 0n
        if (paid > most) most = paid
        return paid <= room && (spent.get(eth.id) ?? 0n) <= room && (spent.get(usdc.id) ?? 0n) <= 20_000_000n
      }),
      { numRuns: 300 },
    )
    t.ok(most > room / 2n, `at most ${most} of ${room}`)
  },
)

t.test('what the budget book is given adds up to what can be lost', async () => {
  fc.assert(
    fc.property(fc.array(effect, { maxLength: 5 }), fc.bigInt(0n, 10n ** 16n), (effects, fee) => {
      const tx = decoded(effects, fee)
      const rollups = new Map<string, bigint>()
      for (const spend of budgetSpends(tx))
        rollups.set(spend.asset, (rollups.get(spend.asset) ?? 0n) + spend.amount)
      const spent = spendOf(tx)
      const movedOf = (id: string) => spent.moved.get(id)?.amount ?? 0n
      rollups.set(eth.id, (rollups.get(eth.id) ?? 0n) - spent.fee)
      rollups.set(feesId(eth), (rollups.get(feesId(eth)) ?? 0n) - spent.fee + movedOf(feesId(eth)))
      return (
        [...rollups].every(([id, sum]) => movedOf(id) === sum) &&
        [...spent.moved.keys()].every((id) => rollups.has(id))
      )
    }),
  )
})

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
