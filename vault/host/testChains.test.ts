import { address, getTransactionDecoder, lamports } from '@solana/kit'
import { Keypair, PublicKey, SystemProgram, Transaction } from '@solana/web3.js'
import { LiteSVM } from 'litesvm'
import t, { type Test } from 'tap'
import { recoverMessageAddress, serializeTransaction, verifyMessage } from 'viem'
import { password, type RunningVault, startVault } from '../../test/helpers/vault/startVault.ts'

const enabled = ['solana', 'base', 'ethereum', 'base-sepolia', 'solana-devnet']
const payee = Keypair.generate().publicKey
const someBlock = Keypair.generate().publicKey.toBase58()
const noWait = { prefer: 'wait=0' }
const keysPath = '/v1/vault/owner/keys'

/** Rules for test money: everything is allowed, only on test chains. */
const playMoney = {
  assets: [
    { chain: 'solana-devnet', symbol: 'SOL', perTransaction: '50', perDay: '500', autoApproveUpTo: '50' },
    { chain: 'base-sepolia', symbol: 'ETH', perTransaction: '50', perDay: '500', autoApproveUpTo: '50' },
  ],
  recipients: 'any',
  messages: 'auto',
}

async function startPlaying(t: Test) {
  const vault = await startVault(t, { enabled })
  const agent = await vault.agent('player', ['wallet.solana-devnet', 'wallet.base-sepolia'])
  await vault.api.policies.set('player', playMoney, vault.owner)
  const addressOn = async (chain: string): Promise<string> =>
    (await agent.call('GET', `/address/${chain}`)).body.address
  const mainOf = (family: 'evm' | 'solana') => vault.vault.keys.default(family).address
  return { vault, agent, addressOn, mainOf }
}

/** The keys with real money, imported a second time and used on test chains. */
async function shareKeys({ vault }: RunningVault): Promise<void> {
  for (const family of ['evm', 'solana'] as const) {
    const privateKey = await vault.exportKey(password, vault.keys.default(family).keyId)
    const { keyId } = await vault.importKey(password, family, `shared-${family}`, privateKey, true)
    await vault.keys.setDefault(family, keyId)
  }
}

const sendSol = (from: string, recentBlockhash = someBlock): string => {
  const payer = new PublicKey(from)
  const send = SystemProgram.transfer({ fromPubkey: payer, toPubkey: payee, lamports: 5_000_000_000 })
  const bytes = new Transaction({ feePayer: payer, recentBlockhash })
    .add(send)
    .serialize({ requireAllSignatures: false, verifySignatures: false })
  return bytes.toString('base64')
}
const signSol = (unsignedTx: string) => ({ chain: 'solana-devnet', amount: 5, unsigned_tx: unsignedTx })

const sendEth = (chainId: number | undefined, nonce = 0) => ({
  chain: 'base-sepolia',
  amount: 1,
  unsigned_tx: serializeTransaction({
    type: 'legacy',
    ...(chainId !== undefined && { chainId }),
    nonce,
    gas: 21_000n,
    gasPrice: 1_000_000_000n,
    to: `0x${'12'.repeat(20)}`,
    value: 10n ** 18n,
  }),
})
const statusOf = async (vault: RunningVault) => (await vault.asOwner('GET', '/v1/vault/status')).body

/** A separate cluster with money on one account. */
function clusterWith(funded: string) {
  const svm = new LiteSVM()
  svm.airdrop(address(funded), lamports(20_000_000_000n))
  return {
    block: svm.latestBlockhash(),
    submit: (signedTx: string) =>
      svm.sendTransaction(getTransactionDecoder().decode(Buffer.from(signedTx, 'base64'))),
    balanceOf: (account: string) => svm.getBalance(address(account)) ?? 0n,
  }
}

t.test('what a rule for Devnet signs moves nothing on Solana, with the same block hash', async (t) => {
  const { vault, agent, addressOn, mainOf } = await startPlaying(t)
  const [ours, real, to] = [await addressOn('solana-devnet'), mainOf('solana'), payee.toBase58()]
  t.not(ours, real)
  t.strictSame((await statusOf(vault)).warnings, [])

  const mainnet = clusterWith(real)
  const refused = await agent.call('POST', '/v1/vault/sign', signSol(sendSol(real, mainnet.block)))
  t.match(refused, { status: 400, body: { error: { code: 'INVALID_TX' } } })
  const play = await agent.call('POST', '/v1/vault/sign', signSol(sendSol(ours, mainnet.block)))
  t.equal(play.status, 200)
  mainnet.submit(play.body.signed_tx)
  t.equal(mainnet.balanceOf(to), 0n)
  t.equal(mainnet.balanceOf(real), 20_000_000_000n)

  const devnet = clusterWith(ours)
  const sent = await agent.call('POST', '/v1/vault/sign', signSol(sendSol(ours, devnet.block)))
  devnet.submit(sent.body.signed_tx)
  t.equal(devnet.balanceOf(to), 5_000_000_000n, 'and on Devnet it does what it says')
})

t.test('on EVM, too, what leaves its chain out is signed by an address without real money', async (t) => {
  const { vault, agent, addressOn, mainOf } = await startPlaying(t)
  const ours = await addressOn('base-sepolia')
  t.not(ours, mainOf('evm'))
  t.equal((await agent.call('POST', '/v1/vault/sign', sendEth(84_532))).status, 200)
  for (const chainId of [undefined, 1, 8453]) {
    const { status, body } = await agent.call('POST', '/v1/vault/sign', sendEth(chainId))
    t.match([status, body.error?.code], [422, 'CHAIN_MISMATCH'])
  }
  const message = `exchange.example wants you to sign in with your Ethereum account:\n${mainOf('evm')}\n\nURI: https://exchange.example\nVersion: 1\nChain ID: 1\nNonce: 12345678\nIssued At: 2026-01-01T00:00:00Z`
  const signed = await agent.call('POST', '/v1/vault/sign-message', { chain: 'base-sepolia', message })
  t.equal(signed.status, 200)
  const { signature } = signed.body
  t.equal(await recoverMessageAddress({ message, signature }), ours)
  t.notOk(await verifyMessage({ address: mainOf('evm') as `0x${string}`, message, signature }))
  const typed = {
    domain: { name: 'Orders', verifyingContract: `0x${'34'.repeat(20)}` },
    types: { Order: [{ name: 'amount', type: 'uint256' }] },
    primaryType: 'Order',
    message: { amount: '1' },
  }
  const pendingApproval = await agent.call(
    'POST',
    '/v1/vault/sign-typed-data',
    { chain: 'base-sepolia', typed_data: typed },
    noWait,
  )
  t.equal(pendingApproval.status, 202, 'no rule approves data that is bound to no chain')
  t.equal((await vault.asOwner('GET', keysPath)).body.keys.length, 4)
})

t.test(
  'where test chains share a key with real money, every use that is not bound is asked for',
  async (t) => {
    const { vault, agent, addressOn, mainOf } = await startPlaying(t)
    await shareKeys(vault)
    const shared = mainOf('solana')
    t.equal(await addressOn('solana-devnet'), shared)
    t.match((await statusOf(vault)).warnings, [
      {
        code: 'TEST_KEYS_SHARED',
        message: /Base Sepolia and Solana Devnet/,
        action: /keys use evm-test:0 and tollgate vault keys use solana-test:0\./,
      },
    ])
    t.notOk('warnings' in (await agent.call('GET', '/v1/vault/status')).body, 'it is the affair of the owner')

    const pendingApproval = await agent.call('POST', '/v1/vault/sign', signSol(sendSol(shared)), noWait)
    t.equal(pendingApproval.status, 202)
    const { approvals } = (await vault.asOwner('GET', '/v1/vault/approvals?status=pending')).body
    t.match(approvals[0], { reasons: [/also holds real money/], warnings: [/where money is real/] })
    t.match((await agent.call('POST', '/v1/vault/preview', signSol(sendSol(shared)))).body, {
      verdict: 'ask',
    })
    for (const chain of ['solana-devnet', 'base-sepolia']) {
      const text = await agent.call('POST', '/v1/vault/sign-message', { chain, message: 'Hello' }, noWait)
      t.equal(text.status, 202, `messages of ${chain} name no chain`)
    }
    t.equal(
      (await agent.call('POST', '/v1/vault/sign', sendEth(84_532))).status,
      200,
      'bound by its chain id',
    )

    await vault.vault.lock()
    t.strictSame(vault.api.warnings(vault.owner), [], 'of a locked one nothing is known')
    await vault.vault.unlock(password)
    t.equal(await addressOn('solana-devnet'), shared)
    t.equal(vault.api.warnings(vault.owner).length, 1)

    for (const id of ['evm-test:0', 'solana-test:0'])
      t.equal((await vault.asOwner('POST', `${keysPath}/use`, { id })).status, 200)
    const ours = await addressOn('solana-devnet')
    t.not(ours, shared)
    t.strictSame((await statusOf(vault)).warnings, [])
    t.equal((await agent.call('POST', '/v1/vault/sign', signSol(sendSol(ours)))).status, 200)
    t.equal((await agent.call('POST', '/v1/vault/sign', signSol(sendSol(shared)))).status, 400)
    t.equal(
      (await agent.call('POST', '/v1/vault/sign-message', { chain: 'solana-devnet', message: 'Hello' }))
        .status,
      200,
    )
    await vault.vault.lock()
    await vault.vault.unlock(password)
    t.equal(vault.vault.keys.default('solana', true).address, ours)
  },
)

t.test('a key that was brought in is for test chains or for the others, never for both', async (t) => {
  const { vault, agent, addressOn, mainOf } = await startPlaying(t)
  const bring = async (name: string, test: boolean) => {
    const { secretKey } = Keypair.fromSeed(new Uint8Array(32).fill(7))
    const private_key = Buffer.from(secretKey).toString('hex')
    const key = { password, family: 'solana', name, private_key, test }
    return (await vault.asOwner('POST', `${keysPath}/import`, key)).body
  }
  const use = (id: string) => vault.asOwner('POST', `${keysPath}/use`, { id })
  const [main, derived] = [mainOf('solana'), await addressOn('solana-devnet')]
  t.match(await bring('play', true), { id: 'import:play', test: true, in_use: false })
  await use('import:play')
  const play = await addressOn('solana-devnet')
  t.not(play, derived)
  t.equal(mainOf('solana'), main, 'a key for test chains is used on no other')
  t.equal((await agent.call('POST', '/v1/vault/sign', signSol(sendSol(play)))).status, 200)

  t.match(await bring('real', false), { id: 'import:real', test: false })
  await use('import:real')
  t.equal(mainOf('solana'), play)
  t.equal(await addressOn('solana-devnet'), play)
  const next = Keypair.generate().publicKey.toBase58()
  const pendingApproval = await agent.call('POST', '/v1/vault/sign', signSol(sendSol(play, next)), noWait)
  t.equal(pendingApproval.status, 202, 'the same private key, brought in twice')
  t.match((await statusOf(vault)).warnings, [{ code: 'TEST_KEYS_SHARED' }])
  await use('solana-test:0')
  t.strictSame((await statusOf(vault)).warnings, [])
})
