import { isUtf8 } from 'node:buffer'
import { networkOfV1Name } from '../../core/domain/network.ts'
import { codes } from '../../core/errors/codes.ts'
import { contentTypeOf } from '../../core/http/contentType.ts'
import type { LinkAnswer } from '../../core/ports/linkCalls.ts'
import { decodeHeader } from '../../core/x402/header.ts'
import { isObject } from '../../core/x402/strictJson.ts'
import { type ContentBlock, failed, type ToolResult, textBlock, untrusted } from './toolResult.ts'

/** What a link answered, or the offer of one that is to be paid. */
export const callOutput = {
  type: 'object',
  anyOf: [
    {
      type: 'object',
      required: ['status', 'mediaType', 'isWhole', 'answer'],
      properties: {
        status: { type: 'integer', description: 'HTTP status; 400 and above is an error.' },
        mediaType: { type: 'string', description: 'Empty when the seller named none.' },
        isWhole: { type: 'boolean', description: 'False when answer is only the beginning.' },
        purchaseId: { type: 'string', description: 'Of a paid call; submit_review wants it.' },
        reviewToken: { type: 'string', description: 'Of a paid call; submit_review wants it.' },
        transaction: { type: 'string', description: 'On chain, of a paid call.' },
        network: { type: 'string', description: 'The CAIP-2 id of the chain that transaction is on.' },
        answer: { description: 'The seller’s: JSON, or text. Null where it is a resource among content.' },
        next: { type: 'string', description: 'How to get the rest.' },
      },
    },
    {
      type: 'object',
      required: ['x402Version', 'accepts'],
      properties: {
        x402Version: { type: 'integer' },
        error: { type: 'string' },
        resource: { type: 'object' },
        accepts: { type: 'array', items: { type: 'object' } },
      },
      description: 'The offer, of an error: payment is required.',
    },
  ],
}

const textual =
  /^(?:text\/.*|application\/(?:[\w.-]+\+)?(?:json|xml|yaml|x-yaml|javascript|x-ndjson|x-www-form-urlencoded))$/

/**
 * What a link answered, as a tool's result: a 402 with its offer, and receipts, as x402's MCP transport has them; what the
 * seller said first, in a block of its own, and behind it a note about whose words they are.
 *
 * @param url the address that was called
 * @see https://github.com/x402-foundation/x402/blob/main/specs/transports-v2/mcp.md
 */
export function toResult(answer: LinkAnswer, url: string): ToolResult {
  const receipt = readHeader(answer, 'payment-response') ?? readHeader(answer, 'x-payment-response')
  // A seller's headers about payments are dropped, and a seller's own 402 has no receipt that says so.
  const refused = answer.status === 402 && receipt?.['success'] === false ? jsonOf(answer) : undefined
  const body = isObject(refused) && Object.hasOwn(refused, 'x402Version') ? refused : undefined
  // Version 1 has no header for its offer.
  const offer = answer.status === 402 ? (readHeader(answer, 'payment-required') ?? body) : undefined
  if (offer !== undefined) return offered(offer, receipt, wordsOf(body))
  const paid = transactionOf(receipt)
  const meta = receipt === undefined ? {} : { _meta: { 'x402/payment-response': receipt } }
  const failure = answer.status >= 400 ? refusalIn(answer, paid) : undefined
  if (failure !== undefined) return { ...failure, content: [...failure.content, untrusted], ...meta }
  return { ...answered(answer, url, paid), ...(answer.status >= 400 && { isError: true }), ...meta }
}

type Receipt = Readonly<Record<string, unknown>> | undefined

/** Why a payment was refused: in the envelope, or beside the offer of version 1. */
function wordsOf(body: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const { message } = isObject(body?.['error']) ? body['error'] : (body ?? {})
  return typeof message === 'string' ? message : undefined
}

/** Not every client shows its agent `_meta`. */
function transactionOf(receipt: Receipt): { transaction?: string; network?: string } {
  const { transaction, network } = receipt ?? {}
  if (typeof transaction !== 'string' || transaction === '') return {}
  return { transaction, ...(typeof network === 'string' && { network: networkOfV1Name(network) ?? network }) }
}

/**
 * The offer stands first and by itself: clients look for it there. Others (Cloudflare's `agents`) read it from `_meta`, and send it
 * back by `btoa`, which fails at every character that is no byte.
 */
function offered(
  offer: Readonly<Record<string, unknown>>,
  receipt: Receipt,
  refusal = 'Payment required.',
): ToolResult {
  const data = receipt === undefined ? offer : { ...offer, 'x402/payment-response': receipt }
  const how = `${refusal} Sign one entry of accepts, then make the same call again with the payment in _meta["x402/payment"], or as the argument payment.`
  return {
    content: [textBlock(JSON.stringify(data)), textBlock(how), untrusted],
    structuredContent: data,
    isError: true,
    _meta: {
      'x402/error': JSON.parse(JSON.stringify(offer).replace(/[^ -~]+/g, '?')),
      ...(receipt !== undefined && { 'x402/payment-response': receipt }),
    },
  }
}

function answered(answer: LinkAnswer, url: string, paid: object): ToolResult {
  const { status, isWhole, body } = answer
  const { mediaType } = contentTypeOf(headerOf(answer, 'content-type') ?? '')
  const purchaseId = headerOf(answer, 'x-purchase-id')
  const reviewToken = headerOf(answer, 'x-review-token')
  const isText =
    headerOf(answer, 'content-encoding') === undefined &&
    (textual.test(mediaType) || (mediaType === '' && isUtf8(body)) || body.length === 0)
  const json = isText && isWhole ? jsonOf(answer) : undefined
  const said = json === undefined ? (isText ? body.toString() : null) : unwrapped(json, purchaseId)
  const facts = {
    ...{ status, mediaType, isWhole },
    ...(purchaseId !== undefined && { purchaseId, reviewToken }),
    ...paid,
    ...(!isWhole && { next: nextOf(purchaseId !== undefined) }),
  }
  const block = isText
    ? textBlock(typeof said === 'string' ? said : JSON.stringify(said))
    : resourceOf(answer, mediaType, url)
  return {
    content: [...(block === undefined ? [] : [block, untrusted]), textBlock(JSON.stringify(facts))],
    structuredContent: { ...facts, answer: said },
  }
}

const nextOf = (isPaid: boolean) =>
  isPaid
    ? 'The answer is too long for a tool. It is paid and kept: call the link’s endpoint over HTTP, the same request with the same payment in PAYMENT-SIGNATURE, from the same network address or with the Idempotency-Key that this call came with, and you get all of it.'
    : 'The answer is too long for a tool. Ask for less of it, or call the link’s endpoint over HTTP.'

/** Half of a picture is nothing. */
function resourceOf({ body, isWhole }: LinkAnswer, mediaType: string, uri: string): ContentBlock | undefined {
  if (!isWhole) return undefined
  const mimeType = mediaType === '' ? 'application/octet-stream' : mediaType
  return { type: 'resource', resource: { uri, mimeType, blob: body.toString('base64') } }
}

/** What the gateway put around a paid answer is told apart already. */
function unwrapped(json: unknown, purchaseId: string | undefined): unknown {
  if (purchaseId === undefined || !isObject(json) || !Object.hasOwn(json, 'data')) return json
  const [, note] = Object.values(json)
  const isOurs = Object.keys(json).length === 2 && isObject(note) && note['purchaseId'] === purchaseId
  return isOurs ? json['data'] : json
}

function jsonOf({ body }: LinkAnswer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/**
 * An error in the gateway's envelope. A seller can write one too, so that nothing is taken from it but what every error has,
 * and it is told as somebody else's words.
 */
function refusalIn(answer: LinkAnswer, paid: object): ToolResult | undefined {
  const body = answer.isWhole ? jsonOf(answer) : undefined
  if (!isObject(body) || body['success'] !== false || !isObject(body['error'])) return undefined
  const { code, message, requestId, reason, retryable } = body['error']
  const { purchaseId } = body
  if (typeof code !== 'string' || typeof message !== 'string' || !Object.hasOwn(codes, code)) return undefined
  const error = {
    ...{ code, message, retryable: retryable === true },
    ...(typeof requestId === 'string' && { requestId }),
    ...(typeof reason === 'string' && { reason }),
  }
  const seconds = Number(headerOf(answer, 'retry-after')) || undefined
  return failed({ error, ...(typeof purchaseId === 'string' && { purchaseId }), ...paid }, seconds)
}

function headerOf({ headers }: LinkAnswer, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i]!.toLowerCase() === name) return headers[i + 1]
}

function readHeader(answer: LinkAnswer, name: string): Readonly<Record<string, unknown>> | undefined {
  const decoded = decodeHeader(headerOf(answer, name) ?? '')
  return decoded.ok ? decoded.value : undefined
}
