import { createKeyPairSignerFromBytes } from '@solana/kit'
import { Keypair } from '@solana/web3.js'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme } from '@x402/evm/exact/client'
import { ExactEvmScheme as EvmFacilitator } from '@x402/evm/exact/facilitator'
import { toFacilitatorSvmSigner } from '@x402/svm'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { ExactSvmScheme as SvmFacilitator } from '@x402/svm/exact/facilitator'
import t from 'tap'
import { createWalletClient, http, publicActions } from 'viem'
import { generatePrivateKey, mnemonicToAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { startLocalEvm } from './evm/startLocalEvm.ts'
import { startLocalSolana } from './solana/startLocalSolana.ts'
import { startFaultyRpc } from './startFaultyRpc.ts'

const resource = { url: 'https://seller.example/paid', description: '', mimeType: 'text/plain' }

t.test('the reference EVM client and facilitator deal with each other over the local chain', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(chain.close)
  const rpc = await startFaultyRpc(chain.rpcUrl)
  t.teardown(rpc.close)
  const buyer = privateKeyToAccount(generatePrivateKey())
  const payTo = privateKeyToAccount(generatePrivateKey()).address
  await chain.mintUsdc(buyer.address, 10_000n)
  const accepted = {
    scheme: 'exact',
    network: 'eip155:84532',
    amount: '10000',
    asset: chain.usdcAddress,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2' },
  } as const
  const account = mnemonicToAccount(chain.mnemonic)
  const wallet = createWalletClient({ account, chain: baseSepolia, transport: http(rpc.url) })
  const client = { ...wallet.extend(publicActions), address: account.address }
  const signer = toFacilitatorEvmSigner(client as unknown as Parameters<typeof toFacilitatorEvmSigner>[0])
  const facilitator = new EvmFacilitator(signer)

  const created = await new ExactEvmScheme(buyer).createPaymentPayload(2, accepted)
  const payment = { ...created, resource, accepted }
  t.match(await facilitator.verify(payment, accepted), { isValid: true, payer: buyer.address })
  t.match(await facilitator.settle(payment, accepted), { success: true })
  t.equal(await chain.balanceUsdc(payTo), 10_000n)
  t.match(await facilitator.verify(payment, accepted), { isValid: false }, 'a used one is found out')
  t.equal(rpc.forwarded('eth_sendRawTransaction'), 1)
})

t.test('the reference Solana client and facilitator deal with each other over the local chain', async (t) => {
  const chain = await startLocalSolana({ slotMs: 5 })
  t.teardown(chain.close)
  const rpc = await startFaultyRpc(chain.rpcUrl)
  t.teardown(rpc.close)
  const feePayer = await createKeyPairSignerFromBytes(Keypair.generate().secretKey)
  const buyer = await createKeyPairSignerFromBytes(Keypair.generate().secretKey)
  const payTo = Keypair.generate().publicKey.toBase58()
  chain.airdrop(feePayer.address, 1_000_000_000n)
  chain.mintUsdc(buyer.address, 10_000n)
  chain.createAta(payTo)
  const accepted = {
    scheme: 'exact',
    network: chain.network as `solana:${string}`,
    amount: '10000',
    asset: chain.usdcMint,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { feePayer: feePayer.address as string },
  }
  const facilitator = new SvmFacilitator(toFacilitatorSvmSigner(feePayer, { defaultRpcUrl: rpc.url }))

  const created = await new ExactSvmScheme(buyer, { rpcUrl: rpc.url }).createPaymentPayload(2, accepted)
  const payment = { ...created, resource, accepted }
  t.match(await facilitator.verify(payment, accepted), { isValid: true, payer: buyer.address })
  t.match(await facilitator.settle(payment, accepted), { success: true })
  t.equal(chain.balanceUsdc(payTo), 10_000n)
  t.match(await facilitator.verify(payment, accepted), { isValid: false }, 'a used one is found out')
  t.equal(rpc.forwarded('sendTransaction'), 1)
})
