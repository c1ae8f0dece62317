import { join } from 'node:path'
import t from 'tap'
import { gatewayUrl } from './gatewayUrl.ts'

t.test('a command finds the gateway where its configuration has it listen, without its secrets', (t) => {
  const folder = t.testdir({
    'own.yaml':
      'publicUrl: https://pay.example.com\ngateway: { host: 0.0.0.0, port: 9000 }\nnetworks: ${SECRET}\n',
    'env.yaml': 'gateway:\n  host: "::1"\n  port: ${PORT:-9001}\n',
    'plain.yaml': 'publicUrl: http://127.0.0.1:8080\n',
    'broken.yaml': 'gateway: [',
    'odd.yaml': 'gateway: { port: http }',
  })
  const at = (file: string, env = {}) => gatewayUrl({ config: join(folder, file) }, env)
  t.equal(at('own.yaml'), 'http://127.0.0.1:9000')
  t.equal(at('env.yaml'), 'http://[::1]:9001')
  t.equal(at('env.yaml', { PORT: '9002' }), 'http://[::1]:9002')
  t.equal(at('plain.yaml'), 'http://127.0.0.1:8080')
  t.equal(gatewayUrl({ config: 'absent.yaml', gateway: 'https://one.example' }), 'https://one.example')
  t.throws(() => at('broken.yaml'), { name: 'UsageError', message: /broken\.yaml.*--gateway/ })
  t.throws(() => at('odd.yaml'), { name: 'UsageError', message: /gateway\.port.*--gateway/ })
  t.throws(() => at('absent.yaml'), { name: 'UsageError', message: /no such file/ })
  t.end()
})
