import { Keypair } from '@solana/web3.js'
import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { verifyTypedData } from 'viem/utils'
import { checkSolanaPayment } from '../../adapters/chains/solana/check/payment.ts'
import { createWalletProofs } from '../../adapters/chains/wallets/walletProofs.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { readPayment } from '../../core/x402/header.ts'
import type { PaymentRequirements } from '../../core/x402/types.ts'
import { newSolanaSecret } from '../../localnet/demoWallets.ts'
import { LIGHTHOUSE_PROGRAM } from '../../localnet/solana/addresses.ts'
import {
  addressOf,
  edit,
  instruction,
  newCast,
  paymentOf,
  rulesOf,
  termsOf,
  transactionOf,
  usdc,
} from '../../test/helpers/chains/solana/payments.ts'
import {
  evmTestWallet,
  solanaTestWallet,
  type TestWallet,
} from '../../test/helpers/web/wallets/testWallets.ts'
import { signPayment } from './signPayment.ts'
import { connectWallet } from './signText.ts'
import type { SignOptions } from './terms.ts'
import type { EvmWallet, SolanaWallet } from './wallet.ts'

const nowSeconds = 1_780_000_000
const evmUsdc = builtInAssets.find(({ network }) => network === 'eip155:84532')!

/** A test wallet, as the page finds it. */
const asEvm = (wallet: TestWallet): EvmWallet => ({
  id: 'evm:test',
  name: 'Test',
  icon: undefined,
  family: 'eip155',
  provider: wallet,
})

function asSolana(wallet: TestWallet, versions: readonly unknown[] = ['legacy', 0]): SolanaWallet {
  const { address } = wallet
  const account = { address, chains: ['solana:devnet'], features: [] }
  const features = {
    'standard:connect': {
      connect: async () => {
        await wallet.request({ method: 'connect' })
        return { accounts: [account] }
      },
    },
    'solana:signTransaction': {
      supportedTransactionVersions: versions,
      async signTransaction({ transaction }: { transaction: Uint8Array }) {
        const text = Buffer.from(transaction).toString('base64')
        const signed = await wallet.request({ method: 'signTransaction', params: [text] })
        return [{ signedTransaction: new Uint8Array(Buffer.from(String(signed), 'base64')) }]
      },
    },
  }
  const standard = { name: 'Test', chains: ['solana:devnet'], accounts: [account], features }
  return { id: 'solana:test', name: 'Test', icon: undefined, family: 'solana', standard }
}

const offerOf = (...accepts: PaymentRequirements[]) => ({
  x402Version: 2 as const,
  error: 'payment_required',
  resource: { url: 'https://pay.example/api/v1/payments/1/pay', description: 'Zwölf Äpfel 🍎', mimeType: '' },
  accepts,
})

const evmEntry = (change: Partial<PaymentRequirements> = {}): PaymentRequirements => ({
  scheme: 'exact',
  network: evmUsdc.network,
  amount: '250000',
  asset: evmUsdc.address,
  payTo: privateKeyToAccount(generatePrivateKey()).address,
  maxTimeoutSeconds: 300,
  extra: { name: 'USDC', version: '2', decimals: 6 },
  ...change,
})

function optionsOf(more: Partial<SignOptions> = {}): SignOptions & { readonly steps: string[] } {
  const steps: string[] = []
  return {
    steps,
    nowSeconds: () => nowSeconds,
    queryPayer: async () => ({ recentBlockhash: usdc.address, balanceAtomic: 10n ** 9n }),
    onStep: (step) => void steps.push(step),
    ...more,
  }
}

/** An EVM wallet with a node that reports this balance. */
async function evmWalletWith(balance: bigint, known?: [number, ...number[]]) {
  const wallet = evmTestWallet(generatePrivateKey(), 'http://127.0.0.1:9', known)
  return {
    ...wallet,
    async request(args: { method: string; params?: readonly unknown[] }) {
      if (args.method !== 'eth_call') return wallet.request(args)
      return `0x${balance.toString(16).padStart(64, '0')}`
    },
  }
}

const read = (t: Test, header: string) => {
  const found = readPayment(header)
  if (!found.ok) throw new Error(found.message)
  t.equal(found.payment.x402Version, 2)
  return found.payment
}

t.test(
  'an EVM wallet signs one authorisation, for exactly what is shown, in the token’s own domain',
  async (t) => {
    const wallet = await evmWalletWith(250_000n)
    const entry = evmEntry()
    const options = optionsOf()
    const header = await signPayment(asEvm(wallet), offerOf(entry), entry, builtInAssets, options)
    const { payload, accepted } = read(t, header)
    t.strictSame(accepted, entry)
    const { signature, authorization } = payload as {
      signature: `0x${string}`
      authorization: Record<string, string>
    }
    t.match(authorization, {
      from: wallet.address,
      to: entry.payTo,
      value: '250000',
      validAfter: String(nowSeconds - 600),
      validBefore: String(nowSeconds + 300),
      nonce: /^0x[0-9a-f]{64}$/,
    })
    const isValid = await verifyTypedData({
      address: wallet.address as `0x${string}`,
      domain: {
        name: 'USDC',
        version: '2',
        chainId: 84532,
        verifyingContract: evmUsdc.address as `0x${string}`,
      },
      primaryType: 'TransferWithAuthorization',
      types: {
        TransferWithAuthorization: [
          ...['from', 'to'].map((name) => ({ name, type: 'address' })),
          ...['value', 'validAfter', 'validBefore'].map((name) => ({ name, type: 'uint256' })),
          { name: 'nonce', type: 'bytes32' },
        ],
      },
      message: authorization as never,
      signature,
    })
    t.ok(isValid)
    t.strictSame(options.steps, ['connecting', 'checking', 'signing'])
    t.equal(wallet.mood.requests.filter((method) => method.startsWith('eth_sign')).length, 1, 'one signature')
  },
)

t.test(
  'a wallet on another network is brought over, and one that does not know it is told of it',
  async (t) => {
    for (const known of [[1, 84532], [1]] as const) {
      const wallet = await evmWalletWith(250_000n, [...known])
      const entry = evmEntry()
      await signPayment(asEvm(wallet), offerOf(entry), entry, builtInAssets, optionsOf())
      t.equal(wallet.mood.chainId, 84532)
    }
  },
)

t.test('what stands in the way has its own name, and nothing is signed', async (t) => {
  const entry = evmEntry()
  const attempt = async (
    change: (wallet: Awaited<ReturnType<typeof evmWalletWith>>) => void,
    has = 250_000n,
  ) => {
    const wallet = await evmWalletWith(has, [1, 84532])
    change(wallet)
    const payment = signPayment(asEvm(wallet), offerOf(entry), entry, builtInAssets, optionsOf())
    const fault = await payment.catch((error) => error)
    t.notOk(
      wallet.mood.requests.includes('eth_signTypedData_v4') &&
        !wallet.mood.declines.has('eth_signTypedData_v4'),
    )
    return fault
  }
  const declining = (method: string) => attempt(({ mood }) => void mood.declines.add(method))
  t.match(await declining('eth_requestAccounts'), { kind: 'declined' })
  t.match(await declining('eth_signTypedData_v4'), { kind: 'declined' })
  t.match(await declining('wallet_switchEthereumChain'), { kind: 'wrong_network', message: /Base Sepolia/ })
  t.match(await attempt(() => {}, 249_999n), {
    kind: 'too_little',
    message: /has 0\.249999 USDC.*0\.25 USDC/,
  })
})

t.test('an offer of anything but what is shown is not signed', async (t) => {
  const wallet = await evmWalletWith(10n ** 12n)
  const shown = evmEntry()
  for (const change of [
    { amount: '250001' },
    { payTo: wallet.address },
    { network: 'eip155:8453' as const },
    { asset: shown.payTo },
    { scheme: 'upto' },
  ]) {
    const payment = signPayment(
      asEvm(wallet),
      offerOf({ ...shown, ...change }),
      shown,
      builtInAssets,
      optionsOf(),
    )
    await t.rejects(payment, { name: 'WalletFault', message: /Reload this page/ })
  }
  t.strictSame(wallet.mood.requests, [])
})

t.test('a Solana wallet signs the one transfer that the gateway’s own check takes', async (t) => {
  const cast = newCast()
  const wallet = solanaTestWallet(newSolanaSecret())
  const entry = termsOf(cast, usdc, { decimals: 6 })
  const header = await signPayment(asSolana(wallet), offerOf(entry), entry, builtInAssets, optionsOf())
  const checked = checkSolanaPayment(read(t, header), entry, rulesOf(cast))
  t.match(checked, { ok: true, identity: { payer: wallet.address } })
  t.strictSame(wallet.mood.requests, ['connect', 'signTransaction'])
})

t.test('a Solana wallet may put assertions around the transfer that it signs', async (t) => {
  const cast = newCast()
  const secret = newSolanaSecret()
  const wallet = solanaTestWallet(secret)
  const guarding: TestWallet = {
    ...wallet,
    async request(args) {
      if (args.method !== 'signTransaction') return wallet.request(args)
      const given = paymentOf(String(args.params?.[0]))
      const guarded = edit(given, Keypair.fromSecretKey(secret), ({ feePayer, instructions }) => {
        const reads = [{ pubkey: feePayer, isSigner: false, isWritable: false }]
        const guard = instruction(LIGHTHOUSE_PROGRAM, Uint8Array.of(5, 0, 255), reads)
        instructions.splice(2, 0, guard, guard, guard)
        instructions.push(guard)
      })
      return transactionOf(guarded)
    },
  }
  const entry = termsOf(cast, usdc, { decimals: 6 })
  const header = await signPayment(asSolana(guarding), offerOf(entry), entry, builtInAssets, optionsOf())
  const checked = checkSolanaPayment(read(t, header), entry, rulesOf(cast))
  t.match(checked, { ok: true, identity: { payer: wallet.address } })
})

t.test('a Solana wallet with too little, of the seller’s, or that only sends, signs nothing', async (t) => {
  const cast = newCast()
  const secret = newSolanaSecret()
  const wallet = solanaTestWallet(secret)
  const entry = termsOf(cast, usdc, { decimals: 6 })
  const sign = (one: SolanaWallet, terms: PaymentRequirements, options = optionsOf()) =>
    signPayment(one, offerOf(terms), terms, builtInAssets, options)
  const poor = optionsOf({
    queryPayer: async () => ({ recentBlockhash: usdc.address, balanceAtomic: 9_999n }),
  })
  await t.rejects(sign(asSolana(wallet), entry, poor), { kind: 'too_little' })
  await t.rejects(sign(asSolana(wallet), { ...entry, payTo: wallet.address }), { kind: 'unfit' })
  const asFeePayer = { ...entry, extra: { ...entry.extra, feePayer: wallet.address } }
  await t.rejects(sign(asSolana(wallet), asFeePayer), { kind: 'unfit' })
  await t.rejects(sign(asSolana(wallet, ['legacy']), entry), { kind: 'unfit' })
  t.notOk(wallet.mood.requests.includes('signTransaction'))
  t.not(addressOf(cast.payer), wallet.address)
})

t.test('a text is signed so that the sign-up takes it', async (t) => {
  const proofs = createWalletProofs({ evmChainId: 84532 })
  const evm = await connectWallet(asEvm(evmTestWallet(generatePrivateKey(), 'http://127.0.0.1:9')))
  const text = 'Sign in – ünïcödé'
  t.ok(await proofs.verifyMessage(evm.chain, evm.address, text, await evm.signText(text)))
  t.notOk(await proofs.verifyMessage(evm.chain, evm.address, `${text}.`, await evm.signText(text)))
})
