import { Keypair, PublicKey, VersionedTransaction } from '@solana/web3.js'
import t from 'tap'
import { type Answer, deliver, offer } from '../test/helpers/buyer/seller.ts'
import { SOLANA_PRICE, startSolanaWorld } from '../test/helpers/buyer/solanaWorld.ts'

const world = await startSolanaWorld(t)
const { chain } = world
const feePayer = world.feePayer.publicKey.toBase58()

const then =
  (withPayment: Answer): Answer =>
  (request, response, seller) =>
    request.payment === null
      ? offer(response, world.offerFor(seller.url))
      : withPayment(request, response, seller)

t.test('an honest seller is paid once, and the chain confirms it', async (t) => {
  const run = await world.pay(world.honest)
  t.match(run.report, { outcome: 'paid', isVerified: true, charged: 'yes', stateFile: null })
  t.equal(run.spent, BigInt(SOLANA_PRICE))
  t.equal(run.signatures, 1)
  t.equal(run.seller.received.length, 2)
})

t.test('what is signed are four instructions, and two payments of one price differ', async (t) => {
  const messages: string[] = []
  for (const _ of [1, 2]) {
    const run = await world.pay(world.honest)
    const { transaction } = run.seller.paid()[0]!.payment!['payload'] as { transaction: string }
    const { message } = VersionedTransaction.deserialize(Buffer.from(transaction, 'base64'))
    const programs = message.compiledInstructions.map((i) =>
      message.staticAccountKeys[i.programIdIndex]!.toBase58(),
    )
    t.strictSame(programs, [
      'ComputeBudget111111111111111111111111111111',
      'ComputeBudget111111111111111111111111111111',
      'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
      'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr',
    ])
    t.equal(message.staticAccountKeys[0]!.toBase58(), feePayer)
    t.equal(message.header.numRequiredSignatures, 2)
    t.equal(message.addressTableLookups.length, 0)
    messages.push(Buffer.from(message.serialize()).toString('hex'))
  }
  t.not(messages[0], messages[1])
})

t.test("the seller's memo is carried, and only it", async (t) => {
  const run = await world.pay(async (request, response, seller) => {
    if (request.payment !== null) return await world.honest(request, response, seller)
    offer(response, world.offerFor(seller.url, { extra: { feePayer, memo: 'Rechnung № 7 ☂' } }))
  })
  t.equal(run.report.outcome, 'paid')
  const { transaction } = run.seller.paid()[0]!.payment!['payload'] as { transaction: string }
  const { message } = VersionedTransaction.deserialize(Buffer.from(transaction, 'base64'))
  t.equal(Buffer.from(message.compiledInstructions[3]!.data).toString('utf8'), 'Rechnung № 7 ☂')
  t.equal(message.compiledInstructions.length, 4)
})

const homeless = Keypair.generate().publicKey.toBase58()
const vault = PublicKey.findProgramAddressSync(
  [Buffer.from('vault')],
  new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'),
)[0].toBase58()

const entries: Record<string, [entry: object, message: RegExp]> = {
  'pays the mint': [{ payTo: chain.usdcMint }, /is a token/],
  'pays the token program': [{ payTo: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA' }, /chain itself/],
  'pays the system program': [{ payTo: '11111111111111111111111111111111' }, /chain itself/],
  'pays the incinerator': [{ payTo: '1nc1nerator11111111111111111111111111111111' }, /chain itself/],
  'pays the buyer': [{ payTo: world.buyer }, /your own wallet/],
  "pays the buyer's token account": [{ payTo: chain.ataAddress(world.buyer) }, /your own token account/],
  "pays the seller's token account instead of the wallet": [
    { payTo: chain.ataAddress(world.payTo) },
    /token account or a program/,
  ],
  'pays a wallet without an account for the token': [{ payTo: homeless }, /no account for USDC/],
  'pays an address of another chain': [{ payTo: `0x${'ab'.repeat(20)}` }, /base58/],
  'pays a key that is too short': [{ payTo: '3'.repeat(32) }, /base58/],
  'pays a key with a character outside base58': [{ payTo: `0${world.payTo.slice(1)}` }, /base58/],
  'makes the buyer the fee payer': [{ extra: { feePayer: world.buyer } }, /pay the network fee/],
  'has no fee payer': [{ extra: {} }, /feePayer/],
  'has a fee payer that is no key': [{ extra: { feePayer: ['x'] } }, /feePayer/],
  'has a fee payer that cannot sign': [{ extra: { feePayer: vault } }, /cannot sign/],
  'has the receiving account as fee payer': [
    { extra: { feePayer: chain.ataAddress(world.payTo) } },
    /cannot sign|of the payment itself/,
  ],
  'has the mint as fee payer': [{ extra: { feePayer: chain.usdcMint } }, /feePayer/],
  'has a memo of control characters': [{ extra: { feePayer, memo: 'a\u001b[2Jb' } }, /memo/],
  'has a memo that reads backwards': [{ extra: { feePayer, memo: 'invoice \u202e7' } }, /memo/],
  'has an empty memo': [{ extra: { feePayer, memo: '' } }, /memo/],
  'has a memo that is too long': [{ extra: { feePayer, memo: 'ä'.repeat(129) } }, /memo/],
  'has a memo that is no text': [{ extra: { feePayer, memo: 7 } }, /memo/],
  'asks for more than a token account can hold': [{ amount: `1${'0'.repeat(20)}` }, /out of range/],
  'wants a token that is not known': [{ asset: chain.token2022Mint }, /token is not known/],
  "wants the main network's token": [
    { asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v' },
    /token is not known/,
  ],
}

for (const [name, [entry, message]] of Object.entries(entries)) {
  t.test(`a Solana offer that ${name} is refused and nothing is signed`, async (t) => {
    const run = await world.pay(async (request, response, { url }) => {
      if (request.payment === null) return offer(response, world.offerFor(url, entry))
      response.writeHead(200).end(await world.settle(request))
    })
    t.match(run.report, { outcome: 'refused', charged: 'no', stateFile: null })
    t.match(run.report.message, message)
    t.equal(run.signatures, 0)
    t.equal(run.spent, 0n)
    t.equal(run.seller.received.length, 1)
  })
}

t.test("a program's vault may be paid when it has an account for the token", async (t) => {
  chain.createAta(vault)
  const run = await world.pay(async (request, response, seller) => {
    if (request.payment !== null) return await world.honest(request, response, seller)
    offer(response, world.offerFor(seller.url, { payTo: vault }))
  })
  t.match(run.report, { outcome: 'paid', isVerified: true })
  t.equal(chain.balanceUsdc(vault), BigInt(SOLANA_PRICE))
})

t.test("a block hash in the offer is not used: the node's own is", async (t) => {
  const stale = Keypair.generate().publicKey.toBase58()
  const run = await world.pay(async (request, response, seller) => {
    if (request.payment !== null) return await world.honest(request, response, seller)
    offer(response, world.offerFor(seller.url, { extra: { feePayer, recentBlockhash: stale } }))
  })
  t.equal(run.report.outcome, 'paid')
})

t.test('a wallet without the money signs nothing', async (t) => {
  const poor = await world.pay(
    (_, response, { url }) => offer(response, world.offerFor(url, { amount: '90000000' })),
    { maxUsd: '100' },
  )
  t.match(poor.report, { outcome: 'refused', message: /the price is 90.00\. Nothing was signed/ })
})

t.test('a success with a signature that the chain does not know is not believed', async (t) => {
  const other = '5'.repeat(87)
  for (const [transaction, problem] of [
    [other, /chain does not have the transaction|no transaction signature/],
    ['settled!', /not a transaction signature/],
  ] as const) {
    const run = await world.pay(
      then((_, response) => deliver(response, world.receiptOf(transaction))),
      { chainWaitMs: 1_000 },
    )
    t.match(run.report, { outcome: 'unverified', charged: 'not_yet' })
    t.match(run.report.message, problem)
    t.equal(run.spent, 0n)
  }
})

t.test("an earlier purchase's transaction is not taken for this one", async (t) => {
  const earlier = await world.pay(world.honest)
  const run = await world.pay(
    then((_, response) => deliver(response, world.receiptOf(earlier.report.transaction!))),
  )
  t.match(run.report, {
    outcome: 'unverified',
    charged: 'not_yet',
    message: /not the one that was signed/,
  })
})

t.test('a settled payment without a receipt is found on the chain', async (t) => {
  let settled = ''
  const run = await world.pay(
    then(async (request, response) => {
      settled = await world.settle(request)
      deliver(response, undefined)
    }),
  )
  t.match(run.report, { outcome: 'paid', isVerified: true, transaction: settled })
})

t.test('a receipt that names another transaction is not believed, and the charge is reported', async (t) => {
  const run = await world.pay(
    then(async (request, response) => {
      await world.settle(request)
      const earlier = chain.airdrop(world.buyer, 1_000_000_000n)
      deliver(response, world.receiptOf(earlier))
    }),
  )
  t.match(run.report, { outcome: 'unverified', charged: 'yes' })
})

t.test('after an unknown outcome the same transaction is sent again', async (t) => {
  let transaction = ''
  const run = await world.pay(
    then(async (request, response, seller) => {
      if (seller.paid().length === 1) {
        transaction = await world.settle(request)
        return response.socket!.destroy()
      }
      deliver(response, world.receiptOf(transaction))
    }),
  )
  t.match(run.report, { outcome: 'paid', attempts: 2, isVerified: true })
  t.equal(run.signatures, 1)
  t.equal(run.spent, BigInt(SOLANA_PRICE))
})

t.test('a payment whose block hash has expired is reported as not charged', async (t) => {
  const run = await world.pay(
    then((_, response) => {
      chain.advanceSlots(400)
      response.writeHead(400).end()
    }),
  )
  t.match(run.report, { outcome: 'rejected', charged: 'no', stateFile: null })
})
