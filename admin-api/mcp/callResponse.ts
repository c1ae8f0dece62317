import { isUtf8 } from 'node:buffer'
import { networkOfV1Name } from '../../core/domain/network.ts'
import { codes } from '../../core/errors/codes.ts'
import { contentTypeOf } from '../../core/http/body.ts'
import type { LinkResponse } from '../../core/ports/linkCalls.ts'
import { decodeHeader } from '../../core/x402/header.ts'
import { isObject } from '../../core/x402/strictJson.ts'
import { type ContentBlock, failed, type ToolResult, textBlock, untrusted } from './tool.ts'

/** The output of a call. It is the link's response, or the offer if the link has to be paid first. */
export const callOutput = {
  type: 'object',
  anyOf: [
    {
      type: 'object',
      required: ['status', 'mediaType', 'isWhole', 'response'],
      properties: {
        status: { type: 'integer', description: 'HTTP status; 400 and above is an error.' },
        mediaType: { type: 'string', description: 'Empty if the seller sent none.' },
        isWhole: {
          type: 'boolean',
          description: 'False if `response` is only the beginning of the response.',
        },
        purchaseId: { type: 'string', description: 'Only for a paid call. submit_review needs this value.' },
        reviewToken: { type: 'string', description: 'Only for a paid call. submit_review needs this value.' },
        transaction: { type: 'string', description: 'Only for a paid call: the transaction on chain.' },
        network: { type: 'string', description: 'The CAIP-2 id of the transaction’s chain.' },
        response: {
          description: 'The seller’s response: JSON or text. Null if it is a resource in `content`.',
        },
        next: { type: 'string', description: 'How to get the rest of the response.' },
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
      description: 'Only in an error that requires payment: the offer.',
    },
  ],
}

const textual =
  /^(?:text\/.*|application\/(?:[\w.-]+\+)?(?:json|xml|yaml|x-yaml|javascript|x-ndjson|x-www-form-urlencoded))$/

/**
 * Converts a link's response to a tool result. A 402 includes its offer, and receipts have the form of x402's MCP transport. The
 * seller's response is the first block. A note about its author follows.
 *
 * @param url the URL that was called
 * @see https://github.com/x402-foundation/x402/blob/main/specs/transports-v2/mcp.md
 */
export function toResult(response: LinkResponse, url: string): ToolResult {
  const receipt = readHeader(response, 'payment-response') ?? readHeader(response, 'x-payment-response')
  // The gateway drops a seller's payment headers, so a 402 of the seller itself has no receipt with `success: false`.
  const hasOffer = response.status === 402 || response.status === 412
  const refused = hasOffer && receipt?.['success'] === false ? jsonOf(response) : undefined
  const body = isObject(refused) && Object.hasOwn(refused, 'x402Version') ? refused : undefined
  // Version 1 has no header for the offer, so the offer is in the body.
  const offer = hasOffer ? (readHeader(response, 'payment-required') ?? body) : undefined
  if (offer !== undefined) return offered(offer, receipt, wordsOf(body))
  const paid = transactionOf(receipt)
  const meta = receipt === undefined ? {} : { _meta: { 'x402/payment-response': receipt } }
  const failure = response.status >= 400 ? refusalIn(response, paid) : undefined
  if (failure !== undefined) return { ...failure, content: [...failure.content, untrusted], ...meta }
  return { ...answered(response, url, paid), ...(response.status >= 400 && { isError: true }), ...meta }
}

type Receipt = Readonly<Record<string, unknown>> | undefined

/** Why a payment was refused. The text comes from the error envelope, or in version 1 from the field beside the offer. */
function wordsOf(body: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const { message } = isObject(body?.['error']) ? body['error'] : (body ?? {})
  return typeof message === 'string' ? message : undefined
}

/** Repeats the transaction in the result, because not every client shows `_meta` to its agent. */
function transactionOf(receipt: Receipt): { transaction?: string; network?: string } {
  const { transaction, network } = receipt ?? {}
  if (typeof transaction !== 'string' || transaction === '') return {}
  return { transaction, ...(typeof network === 'string' && { network: networkOfV1Name(network) ?? network }) }
}

/**
 * Converts an offer to a result. The offer is the only text in the first block, where most clients read it. Other clients, such as
 * Cloudflare's `agents`, read it from `_meta` and send it back with `btoa`. That fails for characters above one byte, so the copy
 * has none.
 */
function offered(
  offer: Readonly<Record<string, unknown>>,
  receipt: Receipt,
  refusal = 'Payment required.',
): ToolResult {
  const data = receipt === undefined ? offer : { ...offer, 'x402/payment-response': receipt }
  const isForWallets = Array.isArray(offer['accepts']) && offer['accepts'].length === 0
  const how = isForWallets
    ? `${refusal} This link is for wallets that sign in, which a tool cannot do. Call the link's endpoint over HTTP with the header SIGN-IN-WITH-X.`
    : `${refusal} Sign one entry of accepts. Then repeat the same call with the payment in _meta["x402/payment"] or in the argument payment.`
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

function answered(response: LinkResponse, url: string, paid: object): ToolResult {
  const { status, isWhole, body } = response
  const { mediaType } = contentTypeOf(headerOf(response, 'content-type') ?? '')
  const purchaseId = headerOf(response, 'x-purchase-id')
  const reviewToken = headerOf(response, 'x-review-token')
  const isText =
    headerOf(response, 'content-encoding') === undefined &&
    (textual.test(mediaType) || (mediaType === '' && isUtf8(body)) || body.length === 0)
  const json = isText && isWhole ? jsonOf(response) : undefined
  const content = json === undefined ? (isText ? body.toString() : null) : unwrapped(json, purchaseId)
  const facts = {
    status,
    mediaType,
    isWhole,
    ...(purchaseId !== undefined && { purchaseId, reviewToken }),
    ...paid,
    ...(!isWhole && { next: nextOf(purchaseId !== undefined) }),
  }
  const block = isText
    ? textBlock(typeof content === 'string' ? content : JSON.stringify(content))
    : resourceOf(response, mediaType, url)
  return {
    content: [...(block === undefined ? [] : [block, untrusted]), textBlock(JSON.stringify(facts))],
    structuredContent: { ...facts, response: content },
  }
}

const nextOf = (isPaid: boolean) =>
  isPaid
    ? 'The response is too long for a tool. The response is paid for and stored. To get all of it, send the same request with the same payment in PAYMENT-SIGNATURE to the link’s endpoint over HTTP, from the same IP address or with the Idempotency-Key of this call.'
    : 'The response is too long for a tool. Request less data, or call the link’s endpoint over HTTP.'

/** Binary data as a resource. Only complete data becomes one, because half an image is useless. */
function resourceOf(
  { body, isWhole }: LinkResponse,
  mediaType: string,
  uri: string,
): ContentBlock | undefined {
  if (!isWhole) return undefined
  const mimeType = mediaType === '' ? 'application/octet-stream' : mediaType
  return { type: 'resource', resource: { uri, mimeType, blob: body.toString('base64') } }
}

/** The seller's part of a wrapped response. The gateway's part comes from the headers. */
function unwrapped(json: unknown, purchaseId: string | undefined): unknown {
  if (purchaseId === undefined || !isObject(json) || !Object.hasOwn(json, 'data')) return json
  const [, note] = Object.values(json)
  const isOurs = Object.keys(json).length === 2 && isObject(note) && note['purchaseId'] === purchaseId
  return isOurs ? json['data'] : json
}

function jsonOf({ body }: LinkResponse): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/**
 * An error in the gateway's envelope. A seller can forge one. So the function uses only the fields that every error has, and marks
 * the result as a third party's text.
 */
function refusalIn(response: LinkResponse, paid: object): ToolResult | undefined {
  const body = response.isWhole ? jsonOf(response) : undefined
  if (!isObject(body) || body['success'] !== false || !isObject(body['error'])) return undefined
  const { code, message, requestId, reason, retryable } = body['error']
  const { purchaseId } = body
  if (typeof code !== 'string' || typeof message !== 'string' || !Object.hasOwn(codes, code)) return undefined
  const error = {
    code,
    message,
    retryable: retryable === true,
    ...(typeof requestId === 'string' && { requestId }),
    ...(typeof reason === 'string' && { reason }),
  }
  const seconds = Number(headerOf(response, 'retry-after')) || undefined
  return failed({ error, ...(typeof purchaseId === 'string' && { purchaseId }), ...paid }, seconds)
}

function headerOf({ headers }: LinkResponse, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i]!.toLowerCase() === name) return headers[i + 1]
}

function readHeader(response: LinkResponse, name: string): Readonly<Record<string, unknown>> | undefined {
  const decoded = decodeHeader(headerOf(response, name) ?? '')
  return decoded.ok ? decoded.value : undefined
}
