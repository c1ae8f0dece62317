import { recoverTypedDataAddress } from 'viem'
import type { ChannelId } from '../../core/domain/channel.ts'
import type { Erc3009Deposit } from '../../core/x402/channelPayment.ts'
import { depositTypedData, voucherTypedData } from '../../core/x402/channelTerms.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'

const signatureForm = /^0x[0-9a-fA-F]{130}$/

type TypedData = ReturnType<typeof depositTypedData> | ReturnType<typeof voucherTypedData>

/** The account that signed typed data by plain ECDSA, in lower case. Undefined if the signature is none. */
async function signerOf(typedData: TypedData, signature: unknown): Promise<string | undefined> {
  if (typeof signature !== 'string' || !signatureForm.test(signature)) return undefined
  const given = { ...typedData, signature } as unknown as Parameters<typeof recoverTypedDataAddress>[0]
  return (await recoverTypedDataAddress(given).catch(() => undefined))?.toLowerCase()
}

/** The account that signed a voucher. */
export const voucherSigner = (
  network: string,
  id: ChannelId,
  totalAtomic: bigint,
  signature: unknown,
): Promise<string | undefined> => signerOf(voucherTypedData(network, id, totalAtomic), signature)

/** The account that signed a deposit by ERC-3009. */
export const depositSigner = (
  terms: Pick<OfferTerms, 'asset'>,
  id: ChannelId,
  payer: string,
  deposit: Erc3009Deposit,
): Promise<string | undefined> => signerOf(depositTypedData(terms, id, payer, deposit), deposit.signature)
