import t from 'tap'
import { redact } from './redact.ts'
import { configSchema } from './schema.ts'

t.test('secrets and texts that no schema knows are hidden, the rest is there', async (t) => {
  const secret = 'a-secret-of-somebody'
  const shown = redact(
    {
      publicUrl: 'https://pay.example',
      operator: { token: secret },
      counters: { use: 'redis', url: `redis://:${secret}@redis` },
      networks: {
        'eip155:8453': {
          rpcUrls: [`https://node.example/${secret}`],
          confirmations: 2,
          facilitator: { url: 'https://facilitator.example', headers: { authorization: secret } },
        },
      },
      plugins: [{ use: './mine.ts', with: { key: secret, most: 7, list: [secret], is: true } }],
    },
    configSchema,
  )
  t.notMatch(JSON.stringify(shown), secret)
  t.match(shown, {
    publicUrl: 'https://pay.example',
    counters: { use: 'redis' },
    networks: { 'eip155:8453': { confirmations: 2, facilitator: { url: 'https://facilitator.example' } } },
    plugins: [{ use: './mine.ts', with: { most: 7, is: true } }],
  })
})
