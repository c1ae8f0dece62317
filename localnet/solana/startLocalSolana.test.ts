import { registerHooks } from 'node:module'
import { base58 } from '@scure/base'
import { createKeyPairSignerFromBytes } from '@solana/kit'
import {
  ComputeBudgetProgram,
  Connection,
  Keypair,
  PublicKey,
  SendTransactionError,
  SystemProgram,
  TransactionInstruction,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import t, { type Test } from 'tap'
import { DEVNET_GENESIS_HASH, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from './addresses.ts'
import { type LocalSolana, type LocalSolanaOptions, startLocalSolana } from './startLocalSolana.ts'

const PRICE = 10_000n
const START = 5_000_000n
const SOL = 1_000_000_000n

async function start(t: Test, options: LocalSolanaOptions = { slotMs: 0 }) {
  const chain = await startLocalSolana(options)
  t.teardown(chain.close)
  const connection = new Connection(chain.rpcUrl, { commitment: 'confirmed', wsEndpoint: chain.wsUrl })
  const [buyer, seller, feePayer] = [Keypair.generate(), Keypair.generate(), Keypair.generate()]
  chain.mintUsdc(buyer.publicKey.toBase58(), START)
  chain.createAta(seller.publicKey.toBase58())
  chain.airdrop(feePayer.publicKey.toBase58(), SOL)
  return { chain, connection, buyer, seller, feePayer, payTo: seller.publicKey.toBase58() }
}

type Started = Awaited<ReturnType<typeof start>>

/** A payment by the v2 client, co-signed by the fee payer unless specified otherwise. */
async function pay({ chain, buyer, feePayer, payTo }: Started, changes: Record<string, unknown> = {}) {
  const scheme = new ExactSvmScheme(await createKeyPairSignerFromBytes(buyer.secretKey), {
    rpcUrl: chain.rpcUrl,
  })
  const { payload } = await scheme.createPaymentPayload(2, {
    scheme: 'exact',
    network: chain.network as `${string}:${string}`,
    amount: String(PRICE),
    asset: chain.usdcMint,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { feePayer: feePayer.publicKey.toBase58() },
    ...changes,
  })
  const transaction = decode(payload['transaction'] as string)
  const unsigned = decode(payload['transaction'] as string)
  transaction.sign([feePayer])
  return { transaction, unsigned, signature: base58.encode(transaction.signatures[0]!) }
}

function decode(encoded: string): VersionedTransaction {
  return VersionedTransaction.deserialize(Buffer.from(encoded, 'base64'))
}

async function rpcError(promise: Promise<unknown>): Promise<{ code?: unknown; message: string }> {
  try {
    await promise
  } catch (error) {
    return error as { code?: unknown; message: string }
  }
  return { message: 'nothing was thrown' }
}

async function statusOf({ connection }: Started, signature: string, searchTransactionHistory = false) {
  const { value } = await connection.getSignatureStatuses([signature], { searchTransactionHistory })
  return value[0]?.confirmationStatus ?? null
}

t.test('the chain says that it is devnet, with USDC at its real mint', async (t) => {
  const { chain, connection } = await start(t)
  t.equal(await connection.getGenesisHash(), DEVNET_GENESIS_HASH)
  t.equal(chain.network, 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1')
  const mint = await connection.getParsedAccountInfo(
    new PublicKey('4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'),
  )
  t.match(mint.value, {
    owner: new PublicKey(TOKEN_PROGRAM),
    data: { program: 'spl-token', parsed: { type: 'mint', info: { decimals: 6, supply: String(START) } } },
  })
})

t.test('a v2 client pays; simulation, settlement, status and history agree', async (t) => {
  const started = await start(t)
  const { chain, connection, buyer, feePayer, payTo } = started
  const { transaction, unsigned, signature } = await pay(started)

  const simulated = await connection.simulateTransaction(unsigned, { sigVerify: false })
  t.equal(simulated.value.err, null, 'the fee payer has not signed yet, and need not for this')
  t.equal(chain.balanceUsdc(payTo), 0n, 'a simulation moves nothing')

  t.equal(await connection.sendTransaction(transaction), signature)
  t.equal(chain.balanceUsdc(payTo), PRICE)
  t.equal(chain.balanceUsdc(buyer.publicKey.toBase58()), START - PRICE)
  const fee = await connection.getFeeForMessage(transaction.message)
  t.equal(
    chain.balanceSol(feePayer.publicKey.toBase58()),
    SOL - BigInt(fee.value!),
    'the fee that was foretold',
  )

  t.equal(await statusOf(started, signature), 'processed')
  t.equal(
    await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 }),
    null,
    'not confirmed',
  )
  chain.advanceSlots(1)
  t.equal(await statusOf(started, signature), 'confirmed')
  const landed = await connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 })
  t.equal(landed?.meta?.fee, fee.value)
  const amounts = (list: { uiTokenAmount: { amount: string } }[] | null | undefined) =>
    list?.map((balance) => balance.uiTokenAmount.amount).sort()
  t.same(amounts(landed?.meta?.preTokenBalances), ['0', String(START)])
  t.same(amounts(landed?.meta?.postTokenBalances), [String(PRICE), String(START - PRICE)])
  chain.advanceSlots(31)
  t.equal(await statusOf(started, signature), 'finalized')
  const listed = await connection.getSignaturesForAddress(new PublicKey(chain.ataAddress(payTo)))
  t.same(
    listed.map((one) => one.signature),
    [signature],
  )

  chain.advanceSlots(300)
  t.equal(await statusOf(started, signature), null, 'an old one is found only')
  t.equal(await statusOf(started, signature, true), 'finalized', 'when the history is searched')
})

t.test('a v2 client pays with a Token-2022 token', async (t) => {
  const started = await start(t)
  const { chain, connection, buyer, payTo } = started
  chain.mintToken(chain.token2022Mint, buyer.publicKey.toBase58(), START)
  chain.createAta(payTo, chain.token2022Mint)
  const { transaction } = await pay(started, { asset: chain.token2022Mint })
  await connection.sendTransaction(transaction)
  t.equal(chain.balanceToken(chain.token2022Mint, payTo), PRICE)
  const held = await connection.getParsedTokenAccountsByOwner(new PublicKey(payTo), {
    programId: new PublicKey(TOKEN_2022_PROGRAM),
  })
  t.equal(held.value[0]?.account.data.parsed.info.tokenAmount.amount, String(PRICE))
})

t.test('one message lands once, however often it is sent and whoever signs it again', async (t) => {
  const started = await start(t)
  const { chain, connection, payTo } = started
  const { transaction, signature } = await pay(started)
  await connection.sendTransaction(transaction)
  const again = await rpcError(connection.sendTransaction(transaction))
  t.match(again.message, /This transaction has already been processed/)
  t.type(again, SendTransactionError)
  t.equal(
    await connection.sendTransaction(transaction, { skipPreflight: true }),
    signature,
    'taken, and no more',
  )
  chain.advanceSlots(40)
  await connection.sendTransaction(transaction, { skipPreflight: true })
  t.equal(chain.balanceUsdc(payTo), PRICE)
  const { value } = await connection.simulateTransaction(transaction)
  t.equal(value.err, 'AlreadyProcessed')
})

t.test('a block hash is good for 150 slots and no longer', async (t) => {
  const started = await start(t)
  const { chain, connection, payTo } = started
  const [first, second] = [await pay(started), await pay(started)]
  const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash('processed')
  t.equal(lastValidBlockHeight - (await connection.getBlockHeight('processed')), 150)

  const older = await connection.getLatestBlockhash('finalized')
  t.equal(lastValidBlockHeight - older.lastValidBlockHeight, 32, 'a finalized one has less time left')
  // The client requested its blockhash at `confirmed`, so it was one slot old.
  chain.advanceSlots(150 - 1)
  await connection.sendTransaction(first.transaction)
  t.equal(chain.balanceUsdc(payTo), PRICE, 'in its last slot it is taken')
  chain.advanceSlots(1)
  t.match((await rpcError(connection.sendTransaction(second.transaction))).message, /Blockhash not found/)
  await connection.sendTransaction(second.transaction, { skipPreflight: true })
  t.equal(chain.balanceUsdc(payTo), PRICE, 'without preflight it is accepted and never lands')
  const isValid = async (commitment: 'processed' | 'finalized') =>
    (await connection.isBlockhashValid(blockhash, { commitment })).value
  t.equal(await isValid('processed'), true)
  chain.advanceSlots(1)
  t.equal(await isValid('processed'), false)
  t.equal(await isValid('finalized'), true, 'finalized blocks forget it later')
  chain.advanceSlots(31)
  t.equal(await isValid('finalized'), true)
  chain.advanceSlots(1)
  t.equal(await isValid('finalized'), false)
})

t.test('a transaction that is not signed by all is refused, or lost when preflight is skipped', async (t) => {
  const started = await start(t)
  const { chain, connection, payTo } = started
  const { unsigned } = await pay(started)
  t.match(await rpcError(connection.sendTransaction(unsigned)), { message: /signature verification failure/ })
  const checked = await rpcError(connection.simulateTransaction(unsigned, { sigVerify: true }))
  t.match(checked.message, /signature verification failure/)
  await connection.sendTransaction(unsigned, { skipPreflight: true })
  t.equal(chain.balanceUsdc(payTo), 0n)
})

t.test('a transfer that fails is told by preflight, and costs its fee without it', async (t) => {
  const started = await start(t)
  const { chain, connection, feePayer, payTo } = started
  const { transaction, signature } = await pay(started, { amount: String(START + 1n) })
  const raw = Buffer.from(transaction.serialize()).toString('base64')
  const response = await fetch(chain.rpcUrl, {
    method: 'POST',
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'sendTransaction',
      params: [raw, { encoding: 'base64' }],
    }),
  })
  t.match(await response.json(), {
    error: {
      code: -32002,
      message: 'Transaction simulation failed: Error processing Instruction 2: custom program error: 0x1',
      data: { err: { InstructionError: [2, { Custom: 1 }] } },
    },
  })
  await connection.sendTransaction(transaction, { skipPreflight: true })
  const { value } = await connection.getSignatureStatuses([signature])
  t.same(value[0]?.err, { InstructionError: [2, { Custom: 1 }] })
  t.equal(chain.balanceUsdc(payTo), 0n)
  const fee = await connection.getFeeForMessage(transaction.message)
  t.equal(chain.balanceSol(feePayer.publicKey.toBase58()), SOL - BigInt(fee.value!))
})

t.test('a fee payer without money is refused and nothing lands', async (t) => {
  const started = await start(t)
  const poor = { ...started, feePayer: Keypair.generate() }
  const { transaction, signature } = await pay(poor)
  t.match(
    (await rpcError(started.connection.sendTransaction(transaction))).message,
    /no record of a prior credit/,
  )
  await started.connection.sendTransaction(transaction, { skipPreflight: true })
  t.equal(await statusOf(started, signature), null)
})

t.test(
  'the fee of a message is what the virtual machine takes, whatever limit and price it sets',
  async (t) => {
    const { chain, connection, feePayer } = await start(t)
    const own = feePayer.publicKey
    const plain = SystemProgram.transfer({ fromPubkey: own, toPubkey: own, lamports: 1 })
    const memo = new TransactionInstruction({
      programId: new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'),
      keys: [],
      data: Buffer.from('x'),
    })
    const price = ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 12_345 })
    const limit = ComputeBudgetProgram.setComputeUnitLimit({ units: 77_777 })
    const tooMuch = ComputeBudgetProgram.setComputeUnitLimit({ units: 4_000_000_000 })
    for (const instructions of [
      [plain],
      [memo, price],
      [plain, memo, price],
      [plain, price, limit],
      [price, tooMuch, memo],
    ]) {
      const { blockhash } = await connection.getLatestBlockhash()
      const message = new TransactionMessage({ payerKey: own, recentBlockhash: blockhash, instructions })
      const transaction = new VersionedTransaction(message.compileToV0Message())
      transaction.sign([feePayer])
      const before = chain.balanceSol(own.toBase58())
      await connection.sendTransaction(transaction)
      const { value } = await connection.getFeeForMessage(transaction.message)
      t.equal(before - chain.balanceSol(own.toBase58()), BigInt(value!))
    }
  },
)

t.test('a held transaction lands on release, an expired or dropped one never', async (t) => {
  const started = await start(t)
  const { chain, connection, payTo } = started
  const [held, late, dropped] = [await pay(started), await pay(started), await pay(started)]

  chain.hold()
  t.equal(await connection.sendTransaction(held.transaction), held.signature)
  t.equal(await statusOf(started, held.signature), null, 'accepted, in no block')
  t.equal(chain.release(), 1)
  t.equal(chain.balanceUsdc(payTo), PRICE)

  chain.dropNext()
  t.equal(await connection.sendTransaction(dropped.transaction), dropped.signature)
  t.equal(chain.balanceUsdc(payTo), PRICE)
  await connection.sendTransaction(dropped.transaction)
  t.equal(chain.balanceUsdc(payTo), 2n * PRICE, 'sent again it lands: only the next one was dropped')

  chain.hold()
  await connection.sendTransaction(late.transaction)
  chain.advanceSlots(200)
  t.equal(chain.release(), 0, 'its block hash expired while it was held')
  t.equal(chain.balanceUsdc(payTo), 2n * PRICE)
})

t.test('a fork that is given up takes its payments along, and they may land again', async (t) => {
  const started = await start(t)
  const { chain, connection, buyer, feePayer, payTo } = started
  const [kept, lost, last] = [await pay(started), await pay(started), await pay(started)]
  await connection.sendTransaction(kept.transaction)
  chain.advanceSlots(2)
  const solBefore = chain.balanceSol(feePayer.publicKey.toBase58())
  await connection.sendTransaction(lost.transaction)
  chain.advanceSlots(1)
  await connection.sendTransaction(last.transaction)
  t.equal(chain.balanceUsdc(payTo), 3n * PRICE)

  t.equal(chain.rollBack(2), 2)
  t.equal(chain.balanceUsdc(payTo), PRICE)
  t.equal(chain.balanceUsdc(buyer.publicKey.toBase58()), START - PRICE)
  t.equal(chain.balanceSol(feePayer.publicKey.toBase58()), solBefore)
  t.same(
    [await statusOf(started, kept.signature), await statusOf(started, lost.signature)],
    ['confirmed', null],
  )
  await connection.sendTransaction(lost.transaction)
  t.equal(chain.balanceUsdc(payTo), 2n * PRICE)
})

t.test('subscribers hear of a signature when it reaches their commitment, and of slots', async (t) => {
  const started = await start(t)
  const { chain, connection } = started
  const { transaction, signature } = await pay(started)
  const slots = Promise.withResolvers<number>()
  const watch = connection.onSlotChange(({ slot }) => slots.resolve(slot))
  // The socket is open and the subscription is active once a slot arrives. Slots advance until then.
  const ticking = setInterval(chain.advanceSlots, 5, 1)
  t.ok(await slots.promise)
  clearInterval(ticking)
  await connection.removeSlotChangeListener(watch)

  const latest = await connection.getLatestBlockhash()
  await connection.sendTransaction(transaction)
  const confirmed = connection.confirmTransaction({ signature, ...latest }, 'confirmed')
  chain.advanceSlots(1)
  t.same((await confirmed).value, { err: null })
  const already = await connection.confirmTransaction({ signature, ...latest }, 'confirmed')
  t.same(already.value, { err: null }, 'also when it is there before the question')
})

t.test('slots pass by themselves unless they are manual', async (t) => {
  const { chain } = await start(t, { slotMs: 1 })
  const { connection } = await start(t, { slotMs: 0 })
  const first = chain.slot()
  while (chain.slot() === first) await new Promise((resolve) => setImmediate(resolve))
  const manual = await connection.getSlot('processed')
  while (chain.slot() < first + 3) await new Promise((resolve) => setImmediate(resolve))
  t.equal(await connection.getSlot('processed'), manual)
})

t.test('what nobody can answer is refused with the codes of a real node', async (t) => {
  const { chain } = await start(t)
  const ask = async (method: string, ...params: unknown[]) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method, params })
    return (await (await fetch(chain.rpcUrl, { method: 'POST', body })).json()) as {
      error?: { code: number }
    }
  }
  t.equal((await ask('getNothing')).error?.code, -32601)
  t.equal((await ask('getBalance', 'not-an-address')).error?.code, -32602)
  t.equal((await ask('getTokenAccountBalance', chain.usdcMint)).error?.code, -32602)
  t.equal((await ask('sendTransaction', 'AAAA', { encoding: 'base64' })).error?.code, -32602)
  t.equal((await ask('getTransaction', '1', { commitment: 'processed' })).error?.code, undefined)
  t.equal((await ask('getLatestBlockhash', { minContextSlot: 10 ** 12 })).error?.code, -32016)
  const batch = JSON.stringify([
    { jsonrpc: '2.0', id: 1, method: 'getHealth' },
    { jsonrpc: '2.0', id: 2, method: 'getVersion' },
  ])
  const responses = await (await fetch(chain.rpcUrl, { method: 'POST', body: batch })).json()
  t.match(responses, [{ id: 1, result: 'ok' }, { id: 2 }])
  for (const body of ['no json', 'null', '7']) {
    t.match(await (await fetch(chain.rpcUrl, { method: 'POST', body })).json(), { error: { code: -32700 } })
  }
})

t.test('airdrops are transfers of their own, and close frees the ports', async (t) => {
  const chain: LocalSolana = await startLocalSolana({ slotMs: 0 })
  t.teardown(chain.close)
  const connection = new Connection(chain.rpcUrl, 'confirmed')
  const account = Keypair.generate().publicKey
  const signatures = [
    await connection.requestAirdrop(account, Number(SOL)),
    chain.airdrop(account.toBase58(), SOL),
  ]
  t.equal(await connection.getBalance(account), 2 * Number(SOL))
  chain.advanceSlots(1)
  const listed = await connection.getSignaturesForAddress(account)
  t.same(
    listed.map((one) => one.signature),
    signatures.reverse(),
  )
  const port = Number(new URL(chain.rpcUrl).port)
  await t.rejects(startLocalSolana({ port }), { code: 'local_chain_start_failed' })
  await chain.close()
  await chain.close()
  const next = await startLocalSolana({ port, slotMs: 0 })
  t.equal(next.wsUrl, `ws://127.0.0.1:${port + 1}`)
  await next.close()
})

t.test('without litesvm the error names the package to install', async (t) => {
  const hooks = registerHooks({
    resolve(specifier, context, nextResolve) {
      if (specifier === 'litesvm') throw new Error('not installed')
      return nextResolve(specifier, context)
    },
  })
  t.teardown(() => hooks.deregister())
  await t.rejects(startLocalSolana(), {
    code: 'local_chain_not_installed',
    message: /litesvm .*not installed\. In a clone, run `npm install`/,
  })
})
