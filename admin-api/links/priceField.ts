import type { Infer } from '../http/fields.ts'

const MAX_RULES = 16
/** Maximum number of names of a condition. `MAX_VALUES` is the maximum number of values of a name. */
const MAX_NAMES = 8
const MAX_VALUES = 16
const MAX_VALUE_CHARS = 256

const decimal = {
  pattern: '^\\d+(\\.\\d{1,18})?$',
  maxLength: 64,
  'x-hint': 'a decimal string such as "0.10"',
} as const
const text = { type: 'string', maxLength: MAX_VALUE_CHARS } as const
const oneOrMore = {
  ...text,
  type: ['string', 'array'],
  items: text,
  minItems: 1,
  maxItems: MAX_VALUES,
} as const
const byName = (description: string) =>
  ({ type: 'object', additionalProperties: oneOrMore, maxProperties: MAX_NAMES, description }) as const

const conditions = {
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  description:
    'The conditions of the rule. A request must meet all of them. A list means that any of its values fits.',
  properties: {
    method: { ...oneOrMore, description: 'An HTTP method, such as POST. GET includes HEAD.' },
    path: {
      ...oneOrMore,
      description:
        "The path after the link's address, such as /render. /render/* includes /render and the paths below it.",
    },
    query: byName('The values of query parameters, by name.'),
    header: byName('The values of headers, by name.'),
    body: byName(
      'The values in a JSON body, by JSON pointer (RFC 6901), such as /model. A number or a boolean is compared by its JSON text.',
    ),
  },
} as const

const rate = (description: string) => ({ ...decimal, type: 'string', description }) as const

/** How the use of a call is measured. */
const measure = {
  type: ['string', 'object'],
  additionalProperties: false,
  description:
    'What a call has used. "header": your API states the price in the response header Settlement-Overrides. An object with tokens, bytes, seconds, or pointer and each: the gateway counts. Only with upTo.',
  properties: {
    tokens: {
      type: 'object',
      additionalProperties: false,
      required: ['input', 'output'],
      description:
        'USD per million tokens, by the token counts in a response in the form of OpenAI, Anthropic or Gemini.',
      properties: {
        input: rate('USD per million input tokens.'),
        output: rate('USD per million output tokens.'),
        cached: rate(
          'USD per million input tokens that the model read from its cache. Default: the rate of input.',
        ),
      },
    },
    bytes: rate('USD per million bytes of the response.'),
    seconds: rate('USD per second from the request to the end of the response.'),
    pointer: {
      type: 'string',
      maxLength: MAX_VALUE_CHARS,
      description: 'A JSON pointer (RFC 6901) to a number in the response, such as /usage/credits.',
    },
    each: rate('USD for each unit of the number at pointer.'),
  },
} as const

/**
 * The price of a link. It is one price for every call, a table of prices by request, a price server, or a price by use.
 */
export const priceField = {
  ...decimal,
  type: ['string', 'object'],
  description:
    'The price of one call in USDC. "0" (the default) means a free link. For other prices, send an object. It is a table in which the first rule that fits decides (rules, otherwise), your server that states each price (url, max, fallback), or a price by use (upTo, by, otherwise).',
  additionalProperties: false,
  properties: {
    rules: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_RULES,
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['when', 'price'],
        properties: {
          when: conditions,
          price: { ...decimal, type: 'string', description: 'The price of the rule in USDC, above 0.' },
        },
      },
    },
    otherwise: {
      ...decimal,
      type: ['string', 'null'],
      description:
        'With rules: the price of a request that fits no rule, above 0. With null, the gateway refuses such requests. With upTo: the price of a call whose use is not known, from 0 to upTo.',
    },
    url: {
      type: 'string',
      minLength: 1,
      maxLength: 2048,
      description:
        'The URL of your server that states the price of each request, instead of rules. The gateway POSTs the facts of a request to this URL and expects {"amount":"0.012"} within 2 seconds.',
    },
    max: {
      ...decimal,
      type: 'string',
      description: 'The highest price that the gateway accepts from your server. Only with url.',
    },
    fallback: {
      ...decimal,
      type: ['string', 'null'],
      description:
        'The price if your server states no valid price in time, above 0. With null, the gateway refuses such requests. Only with url.',
    },
    headers: {
      type: 'array',
      items: { type: 'string', minLength: 1, maxLength: 64 },
      maxItems: MAX_NAMES,
      uniqueItems: true,
      description: 'The names of the headers that your server gets. Only with url. Default: none.',
    },
    upTo: {
      ...decimal,
      type: 'string',
      description:
        'The most that a call costs, above 0. The buyer authorizes this amount and is charged for what the call has used.',
    },
    by: measure,
    stream: {
      type: 'boolean',
      description:
        'True to send the response to the buyer as it arrives, and to charge at its end. False (the default) to charge first and then to send the response. Only with upTo.',
    },
  },
} as const

export type GivenPrice = Infer<typeof priceField>
