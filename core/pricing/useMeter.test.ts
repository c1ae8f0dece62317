import fc from 'fast-check'
import t from 'tap'
import type { UseMeasure } from '../domain/pricing.ts'
import { chargedAmount, readSettlementOverrides } from './useCharge.ts'
import { CompiledUse, type ResponseEnd } from './useMeter.ts'

const usdc = { usdPerUnit: '1', decimals: 6 }
const most = 100_000n

interface Given {
  readonly by: UseMeasure
  readonly body?: string | readonly string[]
  readonly mediaType?: string
  readonly overrides?: readonly string[]
  readonly ms?: number
  readonly end?: ResponseEnd
}

/** What a call costs that costs 0.07 if its use is not known, and at most 0.1. */
function chargeOf({ by, body = '', mediaType = 'application/json', overrides = [], ms = 0, end }: Given) {
  const meter = new CompiledUse({ upTo: '0.1', by, otherwise: '0.07', stream: false }).meter()
  meter.begin({ mediaType, overrides })
  for (const chunk of [body].flat()) meter.push(Buffer.from(chunk))
  meter.stop(end ?? 'whole')
  const { charge, problem } = meter.use(ms)
  return { ...chargedAmount(charge, most, usdc), problem }
}

const known = (amountAtomic: bigint, isCapped = false) => ({ amountAtomic, isCapped, problem: null })
const unknown = (problem: RegExp, amountAtomic = 70_000n) => ({ amountAtomic, isCapped: false, problem })

t.test('the amount that the seller states is charged, never above the most', async (t) => {
  const cases: readonly (readonly [string, bigint, boolean?])[] = [
    ['50000', 50_000n],
    ['0', 0n],
    ['100000', 100_000n],
    ['100001', 100_000n, true],
    ['9'.repeat(78), 100_000n, true],
    ['50%', 50_000n],
    ['0%', 0n],
    ['0.01%', 10n],
    ['100%', 100_000n],
    ['100.01%', 100_000n, true],
    ['$0.05', 50_000n],
    ['$0', 0n],
    ['$0.0000001', 1n],
    ['$0.1', 100_000n],
    ['$1', 100_000n, true],
  ]
  for (const [amount, charged, isCapped] of cases)
    t.match(
      chargeOf({ by: 'header', overrides: [JSON.stringify({ amount })] }),
      known(charged, isCapped),
      amount,
    )
  const odd = { amountAtomic: chargedAmount({ unit: 'percent', hundredths: 1n }, 9_999n, usdc).amountAtomic }
  t.same(odd, { amountAtomic: 1n }, 'a part of a unit is rounded up')
})

t.test('an unreadable amount of the seller counts as none', async (t) => {
  const amounts = [
    ...['', '-1', '+1', '1.5', '1e3', 'NaN', 'Infinity', '0x10', '007', ' 5', '5 ', '1_000', '٣'],
    ...['-5%', '%', '5.123%', '1e2%', '5%%', 'NaN%', '.5%', '$', '$-1', '$1e3', '$.5', '$1.', '1$', '€1'],
  ]
  for (const amount of amounts)
    t.match(
      chargeOf({ by: 'header', overrides: [JSON.stringify({ amount })] }),
      unknown(/none of the/),
      amount,
    )
  for (const value of [
    '',
    '{',
    '[]',
    '"50%"',
    '50000',
    'null',
    '{"amount":"1","amount":"2"}',
    '{"amount":"1"} x',
  ])
    t.match(chargeOf({ by: 'header', overrides: [value] }), unknown(/not a JSON object/), value)
  for (const value of ['{}', '{"amount":50000}', '{"amount":null}', '{"Amount":"1"}'])
    t.match(chargeOf({ by: 'header', overrides: [value] }), unknown(/not a string/), value)
  t.match(chargeOf({ by: 'header' }), unknown(/has no header/))
  t.match(
    chargeOf({ by: 'header', overrides: ['{"amount":"1"}', '{"amount":"1"}'] }),
    unknown(/more than once/),
  )
})

t.test('any header is read without an error', async (t) => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.json(),
        fc.string().map((amount) => JSON.stringify({ amount })),
      ),
      (value) => {
        const charge = readSettlementOverrides([value])
        if (typeof charge === 'string') return
        const { amountAtomic } = chargedAmount(charge, most, usdc)
        t.ok(amountAtomic >= 0n && amountAtomic <= most)
      },
    ),
  )
})

const tokens = { tokens: { input: '3', output: '15', cached: '0.3' } } as const
/** 1,000 input tokens of which 400 are cached, and 500 output tokens: 600 × 3 + 400 × 0.3 + 500 × 15 millionths. */
const price = known(9_420n)

const openAi = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  choices: [{ message: { role: 'assistant', content: 'say {"usage":{"prompt_tokens":9}}' } }],
  usage: {
    prompt_tokens: 1_000,
    completion_tokens: 500,
    total_tokens: 1_500,
    prompt_tokens_details: { cached_tokens: 400, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 100 },
  },
}
const responses = {
  object: 'response',
  output: [{ type: 'message', content: [{ type: 'output_text', text: 'hi' }] }],
  usage: {
    input_tokens: 1_000,
    input_tokens_details: { cached_tokens: 400 },
    output_tokens: 500,
    output_tokens_details: { reasoning_tokens: 100 },
    total_tokens: 1_500,
  },
}
const anthropic = {
  type: 'message',
  content: [{ type: 'text', text: 'hi' }],
  usage: {
    input_tokens: 500,
    cache_creation_input_tokens: 100,
    cache_read_input_tokens: 400,
    output_tokens: 500,
    server_tool_use: { web_search_requests: 1 },
  },
}
const gemini = {
  candidates: [{ content: { parts: [{ text: 'hi' }] } }],
  usageMetadata: {
    promptTokenCount: 950,
    toolUsePromptTokenCount: 50,
    cachedContentTokenCount: 400,
    candidatesTokenCount: 300,
    thoughtsTokenCount: 200,
    totalTokenCount: 1_500,
  },
}

t.test('tokens are counted in the responses of each service', async (t) => {
  for (const response of [openAi, responses, anthropic, gemini, [{ candidates: [] }, gemini]])
    t.match(chargeOf({ by: tokens, body: JSON.stringify(response) }), price)
  const embeddings = { data: [], usage: { prompt_tokens: 1_000, total_tokens: 1_000 } }
  t.match(chargeOf({ by: tokens, body: JSON.stringify(embeddings) }), known(3_000n))
  const noCachedRate = { tokens: { input: '3', output: '15' } }
  t.match(chargeOf({ by: noCachedRate, body: JSON.stringify(openAi) }), known(10_500n))
})

const events = (data: readonly object[], end = '\n'): string =>
  data.map((one) => `event: x${end}data: ${JSON.stringify(one)}${end}${end}`).join('')

const streams = {
  'OpenAI chat': `${events([
    { choices: [{ delta: { content: 'héllo' } }], usage: null },
    { choices: [{ delta: {}, finish_reason: 'stop' }], usage: null },
    { choices: [], usage: openAi.usage },
  ])}data: [DONE]\n\n`,
  'OpenAI responses': events([
    { type: 'response.created', response: { status: 'in_progress', usage: null } },
    { type: 'response.output_text.delta', delta: '😀' },
    { type: 'response.completed', response: responses },
  ]),
  Anthropic: events([
    { type: 'message_start', message: { usage: { ...anthropic.usage, output_tokens: 1 } } },
    { type: 'content_block_delta', delta: { text: 'hi' } },
    { type: 'message_delta', delta: { stop_reason: null }, usage: { output_tokens: 20 } },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 500 } },
    { type: 'message_stop' },
  ]),
  Gemini: events(
    [
      {
        candidates: [],
        usageMetadata: { promptTokenCount: 950, candidatesTokenCount: 7, totalTokenCount: 957 },
      },
      gemini,
    ],
    '\r\n',
  ),
}

t.test('tokens are counted in streams, wherever their chunks end', async (t) => {
  for (const [service, body] of Object.entries(streams)) {
    const bytes = Buffer.from(body)
    for (let size = 1; size < 60; size += 7) {
      const meter = new CompiledUse({ upTo: '0.1', by: tokens, otherwise: '0.07', stream: true }).meter()
      meter.begin({ mediaType: 'text/event-stream', overrides: [] })
      for (let i = 0; i < bytes.length; i += size) meter.push(bytes.subarray(i, i + size))
      meter.stop('whole')
      const { charge, problem } = meter.use(0)
      t.match({ ...chargedAmount(charge, most, usdc), problem }, price, `${service} by ${size}`)
    }
  }
})

t.test('a response without readable token counts costs what the link says', async (t) => {
  const bodies = [
    '',
    '{}',
    'not JSON',
    '{"usage":null}',
    '{"usage":{"prompt_tokens":null}}',
    '{"usage":{"prompt_tokens":"12"}}',
    '{"usage":{"prompt_tokens":-1,"completion_tokens":1e3}}',
    '{"usage":{"prompt_tokens":1.5}}',
    `{"usage":{"prompt_tokens":${'9'.repeat(16)}}}`,
    '{"other":{"usage":{"prompt_tokens":5}}}',
    '{"usage":{"prompt_tokens":5}',
    '\u001f\u008b\u0008{"usage":{"prompt_tokens":5}}',
  ]
  for (const body of bodies) t.match(chargeOf({ by: tokens, body }), unknown(/no token counts/), body)
  const withoutUsage = events([{ choices: [{ delta: { content: 'hi' } }] }])
  t.match(
    chargeOf({ by: tokens, body: withoutUsage, mediaType: 'text/event-stream' }),
    unknown(/no token counts/),
  )
})

t.test('bytes, seconds and a value of the response are counted, and rounded up', async (t) => {
  t.match(chargeOf({ by: { bytes: '0.5' }, body: ['abc', 'de'] }), known(3n))
  t.match(chargeOf({ by: { bytes: '0.5' } }), known(0n))
  t.match(chargeOf({ by: { bytes: '1000000' }, body: 'x' }), known(100_000n, true))
  t.match(chargeOf({ by: { seconds: '0.002' }, ms: 1_500.2 }), known(3_002n))
  t.match(chargeOf({ by: { seconds: '1' }, ms: 100_000 }), known(100_000n, true))
  const by = { pointer: '/meta/cre~1dits/0', each: '0.001' }
  const body = (value: unknown) => JSON.stringify({ meta: { 'cre/dits': [value, 99] } })
  t.match(chargeOf({ by, body: body(3) }), known(3_000n))
  t.match(chargeOf({ by, body: body('2.5') }), known(2_500n))
  t.match(chargeOf({ by, body: body(0) }), known(0n))
  t.match(chargeOf({ by, body: body(0.0000001) }), unknown(/not a decimal number/))
  t.match(chargeOf({ by, body: body(-1) }), unknown(/not a decimal number/))
  t.match(chargeOf({ by, body: body('many') }), unknown(/not a decimal number/))
  t.match(chargeOf({ by, body: body(null) }), unknown(/no number at/))
  t.match(chargeOf({ by, body: '[]' }), unknown(/no number at/))
})

t.test(
  'a buyer who disconnects pays at least what an unknown use costs, and a seller who breaks off gets only what was counted',
  async (t) => {
    const stream = { by: tokens, mediaType: 'text/event-stream' }
    const begun = streams.Anthropic.slice(
      0,
      streams.Anthropic.indexOf('event: x\ndata: {"type":"message_delta"'),
    )
    t.match(chargeOf({ ...stream, body: begun, end: 'left' }), known(70_000n))
    t.match(chargeOf({ ...stream, body: begun, end: 'broken' }), known(1_935n))
    t.match(chargeOf({ ...stream, end: 'left' }), unknown(/no token counts/))
    t.match(chargeOf({ ...stream, end: 'broken' }), unknown(/no token counts/, 0n))
    t.match(chargeOf({ by: { bytes: '1' }, body: 'abc', end: 'left' }), known(3n))
    t.match(chargeOf({ by: { bytes: '1' }, body: 'abc', end: 'broken' }), known(3n))
    t.match(chargeOf({ by: 'header', overrides: ['{"amount":"5"}'], end: 'left' }), known(5n))
  },
)
