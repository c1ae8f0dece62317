import {
  AddressLookupTableAccount,
  ComputeBudgetProgram,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import fc from 'fast-check'
import t from 'tap'
import { tokenProgramBytes } from '../../../core/solana/addresses.ts'
import {
  account,
  ata,
  base64,
  budget,
  createAccount,
  decode,
  decoded,
  legacy,
  memo,
  mint,
  payee,
  sign,
  stranger,
  token,
  tokenProgram,
  transferChecked,
  unsigned,
  us,
} from '../../../test/helpers/vault/plugins/chain-solana/solana.ts'
import { pinnedAssets } from '../../effects/assets.ts'
import { budgetSpends, spendOf } from '../../effects/effect.ts'
import { proveClaim } from '../../effects/proveClaim.ts'
import { evaluate } from '../../policy/evaluate.ts'
import plugin from './index.ts'

const claim = { chain: 'solana', amount: '1', currency: 'USDC', recipient: payee.toBase58() }
const own = us.publicKey
const send = (lamports: bigint | number, to = payee, from = own) =>
  SystemProgram.transfer({ fromPubkey: from, toPubkey: to, lamports })
const raw = (programId: PublicKey, data: number[], keys = [account(own, true, true)]) =>
  new TransactionInstruction({ programId, keys, data: Buffer.from(data) })

t.test('a token transfer with memo, fee and a new account proves its claim', async (t) => {
  const tx = decoded([
    ...budget(20_000, 1_000_000n),
    createAccount(payee),
    transferChecked(1_000_000n),
    memo('hi'),
  ])
  t.match(tx.effects, [
    { kind: 'account', owner: payee.toBase58(), rent: 2_039_280n },
    { kind: 'transfer', amount: 1_000_000n, toOwner: payee.toBase58(), from: own.toBase58() },
    { kind: 'note', text: 'hi' },
  ])
  t.equal(tx.fee.amount, 25_000n, '5,000 a signature and 20,000 units of one lamport')
  t.equal(spendOf(tx).fee, 25_000n + 2_039_280n)
  t.equal(tx.isOpaque, false)
  t.match(proveClaim(claim, tx), { ok: true, amount: 1_000_000n })
  t.match(proveClaim({ ...claim, recipient: stranger.publicKey.toBase58() }, tx), { code: 'TX_MISMATCH' })
  t.match(proveClaim({ ...claim, chain: 'solana-devnet' }, tx), { code: 'CHAIN_MISMATCH' })
})

t.test('the recipient of a token transfer is proved by deriving its account', async (t) => {
  t.match(proveClaim(claim, decoded([transferChecked(1_000_000n)])), { ok: true })
  t.match(proveClaim(claim, decoded([transferChecked(1_000_000n, ata(stranger.publicKey))])), { ok: false })
})

t.test('native sends, in legacy and version 0', async (t) => {
  const sol = { chain: 'solana', amount: 0.5 }
  t.match(proveClaim(sol, decoded([send(500_000_000)])), { ok: true, asset: { symbol: 'SOL' } })
  const result = decode(base64(legacy([send(500_000_000)])))
  t.match(result.ok && proveClaim(sol, result.decoded), { ok: true })
  t.match(proveClaim(sol, decoded([send(500_000_001)])), { code: 'TX_MISMATCH' })
  t.match(proveClaim(sol, decoded([send(250_000_000), send(250_000_000)])), { ok: true }, 'the sum counts')
  t.match(proveClaim(sol, decoded([send(500_000_000), transferChecked(1n)])), { code: 'TX_MISMATCH' })
})

t.test('Transfer and Approve have the mint of our own associated account, and none otherwise', async (t) => {
  const from = (source: PublicKey, tag: number, amount: bigint) =>
    decoded([
      token(tag, amount, [
        account(source, false, true),
        account(ata(payee), false, true),
        account(own, true),
      ]),
    ])
  t.match(proveClaim(claim, from(ata(own), 3, 1_000_000n)), { ok: true })
  t.ok(from(stranger.publicKey, 3, 1_000_000n).isOpaque)
  const approve = from(ata(own), 4, 2n ** 64n - 1n)
  t.match(approve.effects, [{ kind: 'allowance', isUnlimited: true, amount: 2n ** 64n - 1n }])
  t.match(proveClaim(claim, approve), { code: 'TX_MISMATCH' })
})

t.test('everything else is opaque', async (t) => {
  const system = SystemProgram.programId
  const token2022 = new PublicKey(tokenProgramBytes['token-2022'])
  const [source, destination] = [account(ata(own), false, true), account(ata(payee), false, true)]
  for (const [why, instruction] of [
    ['a durable nonce', SystemProgram.nonceAdvance({ noncePubkey: payee, authorizedPubkey: own })],
    [
      'a new account',
      SystemProgram.createAccount({
        fromPubkey: own,
        newAccountPubkey: own,
        lamports: 1,
        space: 0,
        programId: system,
      }),
    ],
    ['SetAuthority', raw(tokenProgram, [6, 2, 1, ...payee.toBytes()], [source, account(own, true)])],
    ['CloseAccount', raw(tokenProgram, [9], [source, destination, account(own, true)])],
    ['an unknown program', raw(payee, [1, 2, 3])],
    [
      'a trailing byte',
      new TransactionInstruction({ ...send(1), data: Buffer.concat([send(1).data, Buffer.of(0)]) }),
    ],
    [
      'a transfer with a hook',
      new TransactionInstruction({
        ...transferChecked(1n),
        keys: [...transferChecked(1n).keys, account(payee)],
      }),
    ],
    ['false decimals', token(12, 1n, [source, account(mint), destination, account(own, true)], 9)],
    [
      'the mint under another program',
      new TransactionInstruction({ ...transferChecked(1n), programId: token2022 }),
    ],
    [
      'a token that is not known',
      token(12, 1n, [source, account(payee), destination, account(own, true)], 6),
    ],
    [
      "somebody's account for another token",
      new TransactionInstruction({
        ...createAccount(payee),
        keys: createAccount(payee).keys.with(3, account(payee)),
      }),
    ],
    [
      'an account that is not the one of its owner',
      new TransactionInstruction({
        ...createAccount(payee),
        keys: createAccount(payee).keys.with(1, account(ata(stranger.publicKey), false, true)),
      }),
    ],
    ['two compute limits', budget(1, 1n)[0]!],
    ['a memo that is no text', raw(new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'), [255], [])],
  ] as const) {
    const tx = decoded([budget(1, 1n)[0]!, instruction as TransactionInstruction])
    t.ok(tx.isOpaque, why)
    t.notOk(proveClaim({ chain: 'solana', amount: 0 }, tx).ok, why)
  }
})

t.test('what contradicts the claim is refused even where something else is opaque', async (t) => {
  const strange = raw(payee, [1])
  t.match(proveClaim(claim, decoded([transferChecked(1_000_001n), strange])), {
    code: 'TX_MISMATCH',
    mayBeShown: false,
  })
  t.match(proveClaim(claim, decoded([transferChecked(1_000_000n), strange])), {
    code: 'TX_OPAQUE',
    mayBeShown: true,
  })
  t.match(proveClaim(claim, decoded([transferChecked(1n, ata(stranger.publicKey)), strange])), {
    code: 'TX_MISMATCH',
  })
})

t.test('lookup tables are opaque', async (t) => {
  const table = new AddressLookupTableAccount({
    key: stranger.publicKey,
    state: {
      deactivationSlot: 2n ** 64n - 1n,
      lastExtendedSlot: 0,
      lastExtendedSlotStartIndex: 0,
      addresses: [payee],
    },
  })
  const message = new TransactionMessage({
    payerKey: own,
    recentBlockhash: payee.toBase58(),
    instructions: [send(1)],
  }).compileToV0Message([table])
  const result = decode(base64(new VersionedTransaction(message).serialize()))
  t.match(result, { ok: true, decoded: { isOpaque: true } })
})

t.test('priority fees count by the limit, and an absurd one is refused', async (t) => {
  const tx = decoded([...budget(1_400_000, 50_000_000n), transferChecked(1_000_000n)])
  t.equal(tx.fee.amount, 5_000n + 70_000_000n)
  t.match(proveClaim(claim, tx), { code: 'FEE_EXCESSIVE' })
  t.equal(decoded([budget(1, 1_000_000n)[1]!, send(1)]).fee.amount, 205_000n, 'without a limit, the default')
})

t.test('what programs pass over hides neither an amount nor a fee', async (t) => {
  const [limit, price] = budget(1_400_000, 50_000_000n)
  const approve = token(4, 1_000_001n, [
    account(ata(own), false, true),
    account(ata(payee), false, true),
    account(own, true),
  ])
  const more = (instruction: TransactionInstruction, bytes: number, accounts: number) =>
    new TransactionInstruction({
      programId: instruction.programId,
      keys: [...instruction.keys, ...Array.from({ length: accounts }, () => account(payee))],
      data: Buffer.concat([instruction.data, Buffer.alloc(bytes)]),
    })
  for (const [bytes, accounts] of [
    [1, 0],
    [0, 1],
    [2, 2],
  ] as const) {
    for (const plain of [transferChecked(1_000_001n), approve, send(1_000_001)]) {
      const read = decoded([more(plain, bytes, accounts)])
      const { amount, kind } = decoded([plain]).effects[0] as { amount: bigint; kind: string }
      t.match(read.effects, [{ kind: 'opaque' }, { kind, amount }])
      t.strictSame(budgetSpends(read), budgetSpends(decoded([plain])))
      const isToken = plain.programId.equals(tokenProgram)
      t.match(proveClaim(isToken ? claim : { chain: 'solana', amount: '0.001' }, read), {
        code: 'TX_MISMATCH',
        mayBeShown: false,
      })
    }
    const dear = decoded([limit!, more(price!, bytes, accounts), transferChecked(1_000_000n)])
    t.ok(dear.isOpaque)
    t.equal(dear.fee.amount, 5_000n + 70_000_000n)
    t.match(proveClaim(claim, dear), { code: 'FEE_EXCESSIVE', mayBeShown: false })
  }
  const made = decoded([more(createAccount(payee), 0, 1)])
  t.match(made.effects, [{ kind: 'opaque' }, { kind: 'account', owner: payee.toBase58() }])
  t.strictSame(budgetSpends(made), budgetSpends(decoded([createAccount(payee)])))
  const twice = decoded([limit!, price!, ...budget(1, 1n), send(1)])
  t.strictSame([twice.isOpaque, twice.fee.amount], [true, 70_005_000n])
})

t.test('our key has to be a signer, once, with an empty slot', async (t) => {
  const foreign = decode(
    base64(unsigned([send(1, payee, stranger.publicKey)], stranger.publicKey).serialize()),
  )
  t.match(foreign, { ok: false, code: 'INVALID_TX' })
  const signed = unsigned([send(1)])
  signed.sign([us])
  t.match(decode(base64(signed.serialize())), { ok: false }, 'signed already')
  const shared = decoded([transferChecked(1_000_000n)], stranger.publicKey)
  t.equal(spendOf(shared).fee, 0n, 'somebody else pays the fee')
  t.equal(shared.warnings.length, 2)
  const mixed = decoded([transferChecked(1_000_000n), send(1, payee, stranger.publicKey)], stranger.publicKey)
  t.match(proveClaim(claim, mixed), { code: 'TX_MISMATCH' }, 'money of another signer')
})

t.test('an account that stands twice in the message is refused', async (t) => {
  const bytes = Buffer.from(unsigned([send(1)]).serialize())
  const at = bytes.indexOf(payee.toBytes())
  bytes.set(own.toBytes(), at)
  t.match(decode(base64(bytes)), { ok: false, code: 'INVALID_TX', message: /once/ })
})

t.test('other encodings and cut or longer transactions are refused', async (t) => {
  const bytes = unsigned([transferChecked(1_000_000n)]).serialize()
  const good = base64(bytes)
  for (const bad of [
    undefined,
    7,
    '',
    good.replace(/=+$/, '').slice(0, -1),
    ` ${good}`,
    good.replaceAll('+', '-'),
    base64(Buffer.concat([bytes, Buffer.of(0)])),
    base64(bytes.subarray(0, -1)),
    base64(unsigned([transferChecked(1n)]).message.serialize()),
  ]) {
    if (bad !== good) t.match(decode(bad), { ok: false, code: 'INVALID_TX' }, String(bad).slice(0, 20))
  }
})

t.test('whatever a transaction does beyond its claim is refused or shown', async (t) => {
  const key = fc.constantFrom(own, payee, stranger.publicKey, ata(own), ata(payee), mint)
  const amount = fc.constantFrom(0n, 1n, 500_000n, 999_999n, 1_000_000n, 1_000_001n, 2n ** 64n - 1n)
  const instruction = fc.oneof(
    fc.tuple(amount, key).map(([a, k]) => transferChecked(a, k)),
    fc.tuple(amount, key).map(([a, k]) => send(a, k)),
    key.map((k) => createAccount(k)),
    fc.string({ maxLength: 10 }).map(memo),
    fc
      .tuple(fc.nat(30), amount, fc.array(key, { maxLength: 4 }), fc.constantFrom(undefined, 6, 9))
      .map(([tag, a, keys, decimals]) =>
        token(
          tag,
          a,
          keys.map((k) => account(k, k.equals(own), true)),
          decimals,
        ),
      ),
    fc.tuple(key, fc.uint8Array({ maxLength: 12 })).map(([k, data]) => raw(k, [...data])),
  )
  let proved = 0
  fc.assert(
    fc.property(fc.array(instruction, { minLength: 1, maxLength: 4 }), (instructions) => {
      const bytes = unsigned(instructions).serialize()
      const result = decode(base64(bytes))
      if (!result.ok) return true
      const proof = proveClaim(claim, result.decoded)
      if (!proof.ok) return !proof.mayBeShown || result.decoded.isOpaque
      proved++
      // Checked with another decoder: among the instructions only USDC to the payee, exactly one, memos and its account.
      const others = instructions.filter((i) => i.programId.equals(SystemProgram.programId))
      const sum = instructions
        .filter((i) => i.programId.equals(tokenProgram))
        .reduce((total, i) => total + i.data.readBigUInt64LE(1), 0n)
      return others.every((i) => i.data.readBigUInt64LE(4) === 0n) && sum === 1_000_000n
    }),
    { numRuns: 3_000, examples: [[[transferChecked(1_000_000n)]]] },
  )
  t.ok(proved > 0, `${proved} were proved`)
})

t.test('no change of a byte leaves another transfer with the same proof', async (t) => {
  const bytes = unsigned([...budget(20_000, 1n), transferChecked(1_000_000n)]).serialize()
  let proved = 0
  for (let at = 0; at < bytes.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const changed = Uint8Array.from(bytes)
      changed[at] = changed[at]! ^ (1 << bit)
      const result = decode(base64(changed))
      if (!result.ok || !proveClaim(claim, result.decoded).ok) continue
      proved++
      const read = VersionedTransaction.deserialize(changed).message
      const instructions = TransactionMessage.decompile(read).instructions
      const transfers = instructions.filter((i) => i.programId.equals(tokenProgram))
      // The source may be any account of the vault; amount, mint and destination may not differ.
      t.equal(transfers.length, 1)
      t.strictSame(transfers[0]!.data, transferChecked(1_000_000n).data)
      t.ok(transfers[0]!.keys[1]!.pubkey.equals(mint) && transfers[0]!.keys[2]!.pubkey.equals(ata(payee)))
    }
  }
  t.ok(proved > 0, `${proved} were proved`)
})

t.test(
  'whatever is put together, a rule signs only what sends, for a small fee and no account of others',
  async (t) => {
    const policy = {
      assets: [{ chain: 'solana', symbol: 'USDC', perTransaction: '5', perDay: '50', autoApproveUpTo: '5' }],
      recipients: 'any',
      allowances: 'auto',
      messages: 'auto',
    } as const
    const [mine, theirs] = [account(ata(own), false, true), account(ata(payee), false, true)]
    const token2022 = new PublicKey(tokenProgramBytes['token-2022'])
    const wrapped = new PublicKey('So11111111111111111111111111111111111111112')
    const moving = [
      transferChecked(1n),
      transferChecked(5n),
      token(4, 7n, [mine, theirs, account(own, true)]),
    ]
    const harmless = [memo('hi'), createAccount(own)]
    const asking: readonly TransactionInstruction[] = [
      transferChecked(0n),
      token(3, 0n, [mine, theirs, account(own, true)]),
      token(12, 1n, [mine, account(mint), theirs, account(own, true)], 9),
      createAccount(payee),
      createAccount(stranger.publicKey),
      send(0),
      send(1),
      send(1, own),
      raw(tokenProgram, [9], [mine, account(stranger.publicKey, false, true), account(own, true)]),
      raw(tokenProgram, [17], [account(wrapped, false, true)]),
      raw(token2022, [26, 1, ...new Uint8Array(17)], [mine, account(mint), theirs, account(own, true)]),
      raw(token2022, [12, 1, 0, 0, 0, 0, 0, 0, 0, 6], [mine, account(mint), theirs, account(own, true)]),
      SystemProgram.createAccount({
        fromPubkey: own,
        newAccountPubkey: stranger.publicKey,
        lamports: 2_039_280,
        space: 165,
        programId: tokenProgram,
      }),
      ComputeBudgetProgram.requestHeapFrame({ bytes: 1024 }),
    ]
    const heap = asking.at(-1)!
    const picked = fc.array(fc.constantFrom(...moving, ...harmless, ...asking), { maxLength: 6 })
    const price = fc.option(fc.tuple(fc.integer({ min: 0, max: 2_000_000 }), fc.bigInt(0n, 2n ** 64n - 1n)))
    let [automatic, pendingApproval] = [0, 0]
    const nowMs = Date.UTC(2026, 0, 1)
    fc.assert(
      fc.property(picked, price, (instructions, limits) => {
        const all = [...(limits === null ? [] : budget(...limits)), ...instructions]
        if (all.length === 0) return true
        const result = decode(base64(unsigned(all).serialize()))
        if (!result.ok) return true
        const verdict = evaluate({ decoded: result.decoded, policy, nowMs, spentToday: new Map() })
        if (verdict.decision !== 'auto') {
          pendingApproval++
          return true
        }
        automatic++
        const priority =
          limits === null ? 0n : (BigInt(Math.min(limits[0], 1_400_000)) * limits[1]) / 1_000_000n
        return (
          instructions.every((one) => one === heap || !asking.includes(one)) &&
          !instructions.includes(harmless[1]!) &&
          instructions.some((one) => moving.includes(one)) &&
          priority <= 195_000n
        )
      }),
      {
        numRuns: 3_000,
        examples: [
          [[moving[0]!], null],
          [[moving[0]!], [20_000, 1n]],
        ],
      },
    )
    t.ok(automatic > 10 && pendingApproval > 1_000, `${automatic} were approved, ${pendingApproval} were not`)
  },
)

t.test('the signed transaction is the one that was shown', async (t) => {
  for (const bytes of [unsigned([send(5)]).serialize(), Uint8Array.from(legacy([send(5)]))]) {
    const result = decode(base64(bytes))
    if (!result.ok) return t.fail(result.message)
    const tx = result.decoded
    const { signedTx, signature } = plugin.assemble(tx, sign(tx.signingBytes))
    const signed = Buffer.from(signedTx!, 'base64')
    t.same(signed.subarray(65), Buffer.from(bytes).subarray(65))
    t.match(signature, /^[1-9A-HJ-NP-Za-km-z]{80,90}$/)
    t.ok(VersionedTransaction.deserialize(signed).signatures[0]!.some((b) => b !== 0))
    t.throws(() => plugin.assemble(tx, sign(tx.signingBytes, stranger)), TypeError)
    t.throws(() => plugin.assemble(tx, sign(Buffer.from('x'))), TypeError)
  }
  t.ok(Transaction.from(legacy([send(5)])).instructions.length === 1)
})

t.test('a message that is a transaction is refused, text is not', async (t) => {
  const message = (text: string, encoding: 'utf8' | 'base64' = 'utf8') =>
    plugin.decodeMessage({
      chain: 'solana',
      account: own.toBase58(),
      message: text,
      encoding,
      assets: pinnedAssets,
    })
  const v0 = unsigned([send(1)])
  t.match(message(base64(v0.message.serialize()), 'base64'), { ok: false })
  t.match(message(base64(v0.serialize()), 'base64'), { ok: false })
  t.match(message(base64(legacy([send(1)])), 'base64'), { ok: false })
  t.match(message(base64(legacy([send(1)]).subarray(65)), 'base64'), { ok: false })
  t.match(message(base64(Buffer.of(0x81, 1, 2)), 'base64'), { ok: false }, 'a version to come')
  t.match(message('example.com wants you to sign in'), { ok: true, decoded: { signKind: 'solana-message' } })
  t.match(message('Привет'), { ok: true })
  const text = message('gm')
  if (text.ok) t.equal(plugin.assemble(text.decoded, sign(text.decoded.signingBytes)).signedTx, null)
})
