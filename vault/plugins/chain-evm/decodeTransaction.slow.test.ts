import fc from 'fast-check'
import t from 'tap'
import { encodeFunctionData, type Hex, parseAbi, parseTransaction, recoverTransactionAddress } from 'viem'
import { keccak256 } from '../../../core/evm/hex.ts'
import {
  account,
  call,
  decode,
  decoded,
  other,
  sign,
  unsigned,
  usdc,
  usdt,
} from '../../../test/helpers/vault/plugins/chain-evm/evm.ts'
import { spendOf } from '../../effects/effect.ts'
import { proveClaim } from '../../effects/proveClaim.ts'
import { evaluate } from '../../policy/evaluate.ts'
import { evmDigest } from '../../signer/keyStore.ts'
import { permit2Address } from './decodeTransaction.ts'
import plugin from './index.ts'

const claim = { chain: 'base', amount: 1, currency: 'USDC', recipient: other }
const hexBytes = (length: number) =>
  fc
    .uint8Array({ minLength: length, maxLength: length })
    .map((b): Hex => `0x${Buffer.from(b).toString('hex')}`)

t.test('a plain transfer is one effect, and proves its claim', async (t) => {
  const tx = decoded(decode(unsigned()))
  t.match(tx.effects, [{ kind: 'transfer', amount: 1_000_000n, from: account, to: other }])
  t.equal(tx.isOpaque, false)
  t.equal(tx.nonce, 7n)
  t.equal(tx.fee.amount, 100_000_000_000n)
  t.match(proveClaim(claim, tx), { ok: true, amount: 1_000_000n })
  t.strictSame(tx.plainWords, [`Send 1 USDC to ${other}. (Base)`, 'Pay up to 0.0000001 ETH to the network.'])
})

t.test('JSON gives the same bytes as hex, and every deviation from its fields is refused', async (t) => {
  const json = {
    chainId: '0x2105',
    nonce: 7,
    gas: '100000',
    maxFeePerGas: '0xf4240',
    maxPriorityFeePerGas: '1000',
    to: usdc,
    data: call('transfer', other, 1_000_000n),
    from: account.toLowerCase(),
  }
  const expected = decoded(decode(unsigned())).frozenBytes
  for (const spelled of [json, JSON.stringify(json)])
    t.strictSame(decoded(decode(spelled)).frozenBytes, expected)
  for (const [why, change] of [
    ['another sender', { from: other }],
    ['an unknown field', { gasprice: '0x1' }],
    ['fees of two types', { gasPrice: '0x1' }],
    ['a missing nonce', { nonce: undefined }],
    ['two names that differ', { input: '0x' }],
    ['half a byte', { data: '0xabc' }],
    ['leading zeros', { nonce: '07' }],
    ['a fraction', { nonce: 1.5 }],
    ['a priority fee above the whole', { maxPriorityFeePerGas: '0xffffff' }],
    ['a gas limit of 65 bits', { gas: `0x1${'0'.repeat(16)}` }],
  ] as const) {
    t.match(decode({ ...json, ...change }), { ok: false, code: 'INVALID_TX' }, why)
  }
  t.match(decode({ ...json, authorizationList: [] }), { ok: false, code: 'TX_OPAQUE' })
  t.match(decode({ ...json, 'blob. The owner approved': [] }), {
    code: 'TX_OPAQUE',
    message: /^Transactions with blob are not supported\.$/,
  })
  t.match(decode({ ...json, chainId: 1 }), { ok: false, code: 'CHAIN_MISMATCH' })
  t.match(
    decode(`{"nonce":1,${JSON.stringify(json).slice(1)}`),
    { ok: false, code: 'INVALID_TX' },
    'a key twice',
  )
})

t.test('another chain, no chain, blobs and delegation are refused', async (t) => {
  t.match(decode(unsigned({ chainId: 1 })), { ok: false, code: 'CHAIN_MISMATCH' })
  const legacy = {
    type: 'legacy',
    gasPrice: 1_000n,
    maxFeePerGas: undefined,
    maxPriorityFeePerGas: undefined,
  }
  t.match(decode(unsigned({ ...legacy, chainId: undefined })), { ok: false, code: 'CHAIN_MISMATCH' })
  t.match(decode(unsigned(legacy)), { ok: true })
  t.match(decode(unsigned({ ...legacy, type: 'eip2930', accessList: [] })), { ok: true })
  t.match(decode('0x04c0'), { ok: false, code: 'TX_OPAQUE' })
  t.match(decode('0x03c0'), { ok: false, code: 'TX_OPAQUE' })
  for (const bad of [undefined, null, 7, '', '0x', '0x0', 'hello', [], '0x05c0'])
    t.match(decode(bad), { ok: false, code: 'INVALID_TX' }, String(bad))
})

t.test('calls beyond those that are understood are opaque, whatever else they carry', async (t) => {
  const calls: [string, Hex][] = [
    ['an unknown selector', call('setApprovalForAll', other, true)],
    ['a multicall', call('multicall', [call('transfer', other, 1n)])],
    ['trailing bytes', `${call('transfer', other, 1_000_000n)}00`],
    ['a trailing call', `${call('transfer', other, 1_000_000n)}${call('approve', other, 1n).slice(2)}`],
    ['too few bytes', call('transfer', other, 1_000_000n).slice(0, -2) as Hex],
    ['half a selector', '0xa905'],
    ['a dirty address', call('transfer', other, 1_000_000n).replace('000000', '000001') as Hex],
  ]
  for (const [why, data] of calls) {
    const tx = decoded(decode(unsigned({ data })))
    t.ok(tx.isOpaque, why)
    t.match(proveClaim(claim, tx), { ok: false, code: 'TX_OPAQUE', mayBeShown: true }, why)
  }
  // Most contracts decode these like the plain call: its effects are shown beside the opaque part, and its limits apply.
  for (const [why, data] of calls.filter(([why]) => /trailing|dirty/.test(why))) {
    const tx = decoded(decode(unsigned({ data })))
    t.match(tx.effects, [{ kind: 'opaque' }, { kind: 'transfer', to: other, amount: 1_000_000n }], why)
    t.match(
      proveClaim({ ...claim, amount: 0.5 }, tx),
      { ok: false, code: 'TX_MISMATCH', mayBeShown: false },
      why,
    )
  }
  const unknown = decoded(decode(unsigned({ to: other })))
  t.ok(unknown.isOpaque, 'a token that is not known')
  t.notOk(proveClaim(claim, unknown).ok)
  const creation = decoded(decode(unsigned({ to: undefined })))
  t.ok(creation.isOpaque, 'a new contract')
})

t.test('allowances count at their whole value, with the spender as the one who gets it', async (t) => {
  const approve = decoded(decode(unsigned({ data: call('approve', other, 5_000_000n) })))
  t.match(approve.effects, [{ kind: 'allowance', amount: 5_000_000n, spender: other, owner: account }])
  t.equal(
    spendOf(approve).moved.get(approve.effects[0]?.kind === 'allowance' ? approve.effects[0].asset.id : '')
      ?.amount,
    5_000_000n,
  )
  t.match(proveClaim(claim, approve), { ok: false, code: 'TX_MISMATCH' })
  const all = decoded(decode(unsigned({ data: call('approve', other, 2n ** 256n - 1n) })))
  t.match(all.effects, [{ isUnlimited: true }])
  t.match(all.warnings, ['The allowance has no limit.'])
  t.match(proveClaim(claim, all), { ok: false, code: 'TX_MISMATCH' })
})

t.test('to add nothing to an allowance, or to lower one, takes none back', async (t) => {
  const of = (name: string, amount: bigint) => decoded(decode(unsigned({ data: call(name, other, amount) })))
  t.match(of('approve', 0n).plainWords, [/^Revoke/])
  const nothing = of('increaseAllowance', 0n)
  t.match(nothing.effects, [{ kind: 'allowance', amount: 0n, isAdded: true }])
  t.match(nothing.plainWords, [/^Add 0 .*stays unchanged/])
  t.match(of('increaseAllowance', 5n).plainWords, [
    /up to 0.000005 USDC, in addition to what it may already take, without/,
  ])
  for (const amount of [0n, 5n, 2n ** 256n - 1n]) {
    const lowered = of('decreaseAllowance', amount)
    t.equal(lowered.isOpaque, true)
    t.match(lowered.plainWords, [/lowers what .* the rest of the allowance stays/])
  }
})

t.test('what may be an NFT is not told as coins', async (t) => {
  const contract = '0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D'
  const zero = `0x${'0'.repeat(40)}`
  const of = (...args: Parameters<typeof call>) =>
    decoded(decode(unsigned({ to: contract, data: call(...args) })))
  const either = `7 smallest units, or NFT number 7, of the unknown contract ${contract}`
  const end = 'without an expiry. (Base)'
  for (const [args, sentence] of [
    [['transfer', other, 7n], `Send ${either} to ${other}. (Base)`],
    [['transferFrom', account, other, 7n], `Send ${either} to ${other}. (Base)`],
    [['approve', other, 7n], `Allow ${other} to take up to ${either}, ${end}`],
    [
      ['approve', other, 2n ** 200n],
      `Allow ${other} to take ALL of the unknown contract ${contract}, now and later, or its NFT number ${2n ** 200n}, ${end}`,
    ],
    [
      ['approve', other, 0n],
      `Revoke what ${other} may take of the unknown contract ${contract}, or allow it to take NFT number 0. (Base)`,
    ],
    [
      ['approve', zero, 7n],
      `Revoke the right to take NFT number 7 of the unknown contract ${contract}, if it is an NFT contract. (Base)`,
    ],
    [
      ['setApprovalForAll', other, true],
      `Allow ${other} to take ALL of the unknown contract ${contract}, now and later, ${end}`,
    ],
    [
      ['setApprovalForAll', other, false],
      `Revoke what ${other} may take of the unknown contract ${contract}. (Base)`,
    ],
  ] as [Parameters<typeof call>, string][]) {
    const tx = of(...args)
    t.equal(tx.plainWords[0], sentence)
    t.ok(tx.isOpaque, 'and no rule approves it')
    t.match(tx.warnings, [`The contract ${contract} is unknown and may be a token or an NFT.`], sentence)
  }
  t.match(decoded(decode(unsigned({ data: call('approve', other, 0n) }))).plainWords, [
    `Revoke what ${other} may take of USDC. (Base)`,
  ])
})

t.test('to allow the NFT number 0 is no taking back to any rule', async (t) => {
  const policy = { assets: [], recipients: [], otherRecipients: 'deny', allowances: 'auto' } as const
  const judge = (args: Parameters<typeof call>, change: object = {}) =>
    evaluate({
      decoded: decoded(decode(unsigned({ to: other, data: call(...args), gas: 0n }))),
      policy: { ...policy, ...change },
      nowMs: 0,
      spentToday: new Map(),
    })
  t.match(judge(['approve', usdt, 0n]), { decision: 'deny', code: 'SCOPE_DENIED' })
  t.match(judge(['approve', usdt, 0n], { recipients: 'any', allowances: 'deny' }), { decision: 'deny' })
  t.match(judge(['setApprovalForAll', usdt, false]), { decision: 'ask' })
  t.match(judge(['setApprovalForAll', usdt, true]), { decision: 'deny' })
})

t.test('no rule signs a transaction for its fee alone, whatever it looks like', async (t) => {
  const rule = { perTransaction: '5', perDay: '50', autoApproveUpTo: '5' }
  const policy = {
    assets: [
      { chain: 'base', symbol: 'USDC', ...rule },
      { chain: 'base', symbol: 'ETH', ...rule },
    ],
    recipients: 'any',
    allowances: 'auto',
    messages: 'auto',
  } as const
  const judge = (change: Record<string, unknown>) =>
    evaluate({ decoded: decoded(decode(unsigned(change))), policy, nowMs: 0, spentToday: new Map() })
  t.match(judge({}), { decision: 'auto' })
  t.match(judge({ to: other, data: '0x', value: 1n }), { decision: 'auto' })
  for (const [why, change] of [
    ['no value and no data', { to: other, data: '0x', value: 0n }],
    ['to itself', { to: account, data: '0x', value: 10n ** 18n }],
    ['no value, with data for nobody', { to: other, data: '0xdeadbeef', value: 0n }],
    ['a transfer of nothing', { data: call('transfer', other, 0n) }],
    ['of nothing, with value beside it', { data: call('transfer', other, 0n), value: 1n }],
    ['a transfer to itself', { data: call('transfer', account, 5n) }],
    ['nothing of our own', { data: call('transferFrom', account, other, 0n) }],
    ['nothing of another', { data: call('transferFrom', other, account, 0n) }],
    ['money of another', { data: call('transferFrom', other, account, 5n) }],
    ['an allowance taken back', { data: call('approve', other, 0n) }],
    ['nothing added to one', { data: call('increaseAllowance', other, 0n) }],
    ['one that is lowered', { data: call('decreaseAllowance', other, 5n) }],
  ] as const) {
    t.match(judge(change), { decision: 'ask' }, why)
    const dear = { ...change, gas: 1_000_000n, maxFeePerGas: 1_000_000_001n }
    t.match(judge(dear), { decision: 'deny', code: 'FEE_EXCESSIVE' }, `${why}, for a fee above the day's`)
  }
  t.match(judge({ to: usdt, data: call('transfer', other, 0n) }), { decision: 'deny', code: 'SCOPE_DENIED' })
  t.match(judge({ to: usdt, data: call('approve', other, 0n) }), { decision: 'ask' }, 'back from anybody')
})

t.test('Permit2 calls are read with their tokens', async (t) => {
  const permit2 = parseAbi([
    'function approve(address token, address spender, uint160 amount, uint48 expiration)',
    'function transferFrom((address from, address to, uint160 amount, address token)[] transferDetails)',
    'function permit(address owner, ((address token, uint160 amount, uint48 expiration, uint48 nonce) details, address spender, uint256 sigDeadline) permitSingle, bytes signature)',
  ])
  const of = (functionName: string, args: unknown) =>
    decoded(
      decode(
        unsigned({
          to: permit2Address,
          data: encodeFunctionData({ abi: permit2, functionName, args } as never),
        }),
      ),
    )
  t.match(of('approve', [usdt, other, 9n, 77]).effects, [
    { kind: 'allowance', asset: { symbol: 'USDT' }, amount: 9n, spender: other, expiresAt: 77n },
  ])
  const both = of('transferFrom', [
    [
      { from: account, to: other, amount: 1n, token: usdc },
      { from: account, to: other, amount: 2n, token: other },
    ],
  ])
  t.match(both.effects, [{ asset: { symbol: 'USDC' } }, { asset: { isPinned: false }, amount: 2n }])
  t.ok(both.isOpaque)
  const single = {
    details: { token: usdc, amount: 3n, expiration: 1, nonce: 0 },
    spender: other,
    sigDeadline: 1n,
  }
  t.match(of('permit', [account, single, '0x1234']).effects, [
    { kind: 'allowance', amount: 3n, owner: account },
  ])
  t.equal(of('permit', [account, single, '0x1234']).isOpaque, false)
})

t.test('money of another account proves nothing', async (t) => {
  const from = (payer: string) =>
    decoded(decode(unsigned({ data: call('transferFrom', payer, other, 1_000_000n) })))
  t.match(proveClaim(claim, from(account)), { ok: true })
  t.match(proveClaim(claim, from(usdt)), { code: 'TX_MISMATCH', mayBeShown: false })
  t.strictSame(from(usdt).warnings, ['The request moves money of another account.'])
})

t.test('an absurd fee is refused', async (t) => {
  const tx = decoded(decode(unsigned({ maxFeePerGas: 10n ** 12n })))
  t.match(proveClaim(claim, tx), { ok: false, code: 'FEE_EXCESSIVE' })
})

t.test('whatever a transaction does beyond its claim is refused or shown', async (t) => {
  const address = fc.oneof(fc.constantFrom(other, account, usdc, usdt, permit2Address), hexBytes(20))
  const amount = fc.oneof(
    fc.constantFrom(0n, 1n, 999_999n, 1_000_000n, 1_000_001n),
    fc.bigInt(0n, 2n ** 256n - 1n),
  )
  const data = fc.oneof(
    fc
      .tuple(fc.constantFrom('transfer', 'approve', 'increaseAllowance'), address, amount)
      .map((c) => call(...c)),
    fc.tuple(address, address, amount).map(([a, b, c]) => call('transferFrom', a, b, c)),
    fc.tuple(address, fc.boolean()).map(([a, b]) => call('setApprovalForAll', a, b)),
    fc.uint8Array({ maxLength: 80 }).map((b): Hex => `0x${Buffer.from(b).toString('hex')}`),
  )
  let proved = 0
  fc.assert(
    fc.property(address, data, fc.oneof(fc.constant(0n), amount), (to, calldata, value) => {
      const result = decode(unsigned({ to, data: calldata, value }))
      if (!result.ok) return true
      const proof = proveClaim(claim, result.decoded)
      if (!proof.ok) return !proof.mayBeShown || result.decoded.isOpaque
      proved++
      // Another decoder checks here what the chain would do: exactly one USDC of the vault's account to the payee.
      const isOurs = (functionName: string) =>
        calldata.toLowerCase() === call(functionName, other, 1_000_000n) ||
        calldata.toLowerCase() === call('transferFrom', account, other, 1_000_000n)
      return (
        value === 0n &&
        to.toLowerCase() === usdc.toLowerCase() &&
        ['transfer', 'approve', 'increaseAllowance'].some(isOurs)
      )
    }),
    { numRuns: 20_000, examples: [[usdc, call('transfer', other, 1_000_000n), 0n]] },
  )
  t.ok(proved > 0, `${proved} were proved`)
})

t.test('no change of a byte leaves another transaction with the same proof', async (t) => {
  const bytes = Buffer.from(unsigned().slice(2), 'hex')
  const payee = Buffer.from(other.slice(2), 'hex')
  let [readable, proved] = [0, 0]
  for (let at = 0; at < bytes.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const changed = Buffer.from(bytes)
      changed[at] = changed[at]! ^ (1 << bit)
      const result = decode(`0x${changed.toString('hex')}`)
      if (!result.ok) continue
      readable++
      const proof = proveClaim(claim, result.decoded)
      if (!proof.ok) continue
      proved++
      // Only nonce and fees may differ: they are in the frozen bytes that are shown and signed.
      const tx = parseTransaction(`0x${changed.toString('hex')}`)
      t.equal(tx.data, call('transfer', other, 1_000_000n))
      t.equal(tx.to?.toLowerCase(), usdc.toLowerCase())
      t.equal(tx.value ?? 0n, 0n)
      t.ok(changed.includes(payee))
    }
  }
  t.ok(readable > proved && proved > 0, `${readable} readable, ${proved} proved`)
  for (const more of ['00', 'c0', bytes.toString('hex')])
    t.match(decode(`${unsigned()}${more}`), { ok: false }, 'trailing bytes')
})

t.test('the signed transaction is the one that was shown, in the encoding of the request', async (t) => {
  const tx = decoded(decode(unsigned()))
  const { signedTx, signature } = plugin.assemble(tx, sign(tx.signingBytes))
  t.match(parseTransaction(signedTx as Hex), { nonce: 7, to: usdc.toLowerCase(), chainId: 8453 })
  t.equal(await recoverTransactionAddress({ serializedTransaction: signedTx as `0x02${string}` }), account)
  t.match(signature, /^0x[0-9a-f]{128}(1b|1c)$/)
  t.same(
    evmDigest(tx.signKind, tx.signingBytes),
    keccak256(tx.signingBytes),
    'what the signing process signs',
  )
  const json = { chainId: 8453, nonce: 1, gas: 21_000, gasPrice: 1, to: other, value: '5' }
  const legacy = decoded(decode(json))
  const response = JSON.parse(plugin.assemble(legacy, sign(legacy.signingBytes)).signedTx!)
  t.equal(await recoverTransactionAddress({ serializedTransaction: response.raw }), account)
  t.match(response, { type: '0x0', nonce: '0x1', value: '0x5', chainId: '0x2105' })

  t.throws(() => plugin.assemble(tx, sign(legacy.signingBytes)), TypeError, 'of other bytes')
  t.throws(() => plugin.assemble(tx, sign(tx.signingBytes, Buffer.alloc(32, 2))), TypeError, 'by another key')
  t.throws(() => plugin.assemble(tx, sign(tx.signingBytes).subarray(0, 64)), TypeError)
})
