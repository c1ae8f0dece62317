import t from 'tap'
import { conditionText, measureText, priceRange, priceText } from './pricing.ts'

t.test('a price that depends on the request is shown with its bounds', async (t) => {
  t.equal(priceText({ price: '0.01', priceMax: null }), '0.01')
  t.equal(priceText({ price: '0.01', priceMax: '0.05' }), 'from 0.01 to 0.05')
  t.equal(priceText({ price: '0.50', priceMax: '0.50' }), 'up to 0.50')
})

t.test('a price by use is shown with its most, and its measure in words', async (t) => {
  const price = { upTo: '0.10', by: 'header', otherwise: '0', stream: false } as const
  t.equal(priceText(priceRange(price)), 'up to 0.10')
  t.equal(measureText('header'), 'the amount that the API states in its response')
  t.equal(measureText({ bytes: '0.5' }), '0.5 per million bytes of the response')
  t.equal(measureText({ seconds: '0.002' }), '0.002 per second')
  t.equal(measureText({ pointer: '/n', each: '0.1' }), '0.1 times /n of the response')
  t.equal(
    measureText({ tokens: { input: '3', output: '15', cached: '0.3' } }),
    '3 per million input tokens, 0.3 per million cached input tokens, 15 per million output tokens',
  )
})

t.test('conditions are shown in words', async (t) => {
  const when = {
    method: ['POST', 'PUT'],
    path: '/a/*',
    query: { size: 'large' },
    header: { 'x-quality': ['hd', '4k'] },
    body: { '/model': 'big' },
  }
  t.equal(
    conditionText(when),
    'POST or PUT, path /a/*, query size = large, header x-quality = hd or 4k, body /model = big',
  )
})
