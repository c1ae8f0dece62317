import fc from 'fast-check'
import t from 'tap'
import { pinnedAssets } from '../effects/assets.ts'
import evm from './chain-evm/index.ts'
import solana from './chain-solana/index.ts'

const addresses = {
  base: '0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1',
  solana: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
} as const
const hex = fc.uint8Array({ maxLength: 200 }).map((bytes) => `0x${Buffer.from(bytes).toString('hex')}`)
const base64 = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString('base64'))
/** Fields of the formats with values of every kind. */
const shaped = fc.dictionary(
  fc.constantFrom(
    'type',
    'chainId',
    'nonce',
    'to',
    'value',
    'data',
    'gas',
    'gasPrice',
    'accessList',
    'domain',
    'types',
    'primaryType',
    'message',
  ),
  fc.anything(),
)
const input = fc.oneof(
  fc.anything(),
  hex,
  base64,
  shaped,
  shaped.map((value) => fc.stringify(value)),
  fc.json(),
)

t.test('no input makes a decoder throw, and what is read is frozen with an account of ours', async () => {
  for (const [chain, plugin] of [
    ['base', evm],
    ['solana', solana],
  ] as const) {
    const request = { chain, account: addresses[chain], assets: pinnedAssets }
    fc.assert(
      fc.property(input, fc.constantFrom('utf8', 'hex', 'base64'), (value, encoding) => {
        const results = [
          plugin.decodeTransaction({ ...request, unsignedTx: value }),
          plugin.decodeTypedData?.({ ...request, typedData: value }),
          plugin.decodeMessage({ ...request, message: value, encoding }),
        ]
        return results.every(
          (result) =>
            result === undefined ||
            (result.ok
              ? Object.isFrozen(result.decoded) && result.decoded.from === addresses[chain]
              : result.message !== ''),
        )
      }),
      { numRuns: 3_000 },
    )
  }
})
