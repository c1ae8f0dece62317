import { ExactEvmScheme } from '@x402/evm/exact/client'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import fc from 'fast-check'
import t from 'tap'
import { getAddress, type HashTypedDataParameters, type Hex, hashTypedData, toHex } from 'viem'
import { builtInAssets } from '../domain/asset.ts'
import { permit2Payment } from './permit2Payment.ts'

const address = fc.uint8Array({ minLength: 20, maxLength: 20 }).map((bytes) => getAddress(toHex(bytes)))
const evmAssets = builtInAssets.filter(({ eip712 }) => eip712 !== undefined)

t.test('for any terms, payload and digest are those of the reference client', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('exact' as const, 'upto' as const),
      fc.constantFrom(...evmAssets),
      fc.bigInt({ min: 1n, max: 2n ** 256n - 1n }),
      fc.integer({ min: 10, max: 1_000_000 }),
      fc.tuple(address, address, address),
      async (scheme, asset, amountAtomic, maxTimeoutSeconds, [from, payTo, facilitator]) => {
        let digest: Hex | undefined
        const signer = {
          address: from,
          signTypedData: async (typedData: unknown) => {
            digest = hashTypedData(typedData as HashTypedDataParameters)
            return '0x00' as const
          },
        }
        const extra = {
          ...asset.eip712,
          assetTransferMethod: 'permit2',
          ...(scheme === 'upto' && { facilitatorAddress: facilitator }),
        }
        const { network, address: token } = asset
        const entry = {
          scheme,
          network,
          amount: amountAtomic.toString(),
          asset: token,
          payTo,
          maxTimeoutSeconds,
          extra,
        }
        const client = scheme === 'upto' ? new UptoEvmScheme(signer) : new ExactEvmScheme(signer)
        const { payload } = await client.createPaymentPayload(2, entry)
        const theirs = payload['permit2Authorization'] as { nonce: string; deadline: string }
        const ours = permit2Payment(
          {
            scheme,
            asset,
            amountAtomic,
            payTo: payTo.toLowerCase(),
            maxTimeoutSeconds,
            extra,
            permit2: { facilitator: scheme === 'upto' ? facilitator : null },
          },
          { from, nonce: toHex(BigInt(theirs.nonce)), deadline: Number(theirs.deadline) },
        )
        return (
          JSON.stringify(ours.permit2Authorization) === JSON.stringify(theirs) &&
          hashTypedData(ours.typedData) === digest
        )
      },
    ),
    { numRuns: 200 },
  )
})
