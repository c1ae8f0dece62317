import t from 'tap'
import { gasSponsoringName, gasSponsoringOffer, readAllowancePermit } from './gasSponsoring.ts'

const permit = {
  from: '0x1',
  asset: '0x2',
  spender: '0x3',
  amount: '4',
  nonce: '5',
  deadline: '6',
  signature: '0x7',
  version: '1',
}
const read = (info: unknown) => readAllowancePermit({ [gasSponsoringName]: { info } })

t.test('a permit is read without the fields of the offer that a client sends back', async (t) => {
  t.strictSame(read({ ...gasSponsoringOffer.info, ...permit }), permit)
})

t.test('what lacks a field of its own is no permit', async (t) => {
  for (const name of gasSponsoringOffer.schema.required) {
    t.equal(read({ ...permit, [name]: undefined }), undefined, name)
    t.equal(read({ ...permit, [name]: '' }), undefined, name)
    t.equal(read({ ...permit, [name]: 1 }), undefined, name)
  }
  for (const other of [gasSponsoringOffer.info, null, [], 'x', Object.create(permit)])
    t.equal(read(other), undefined)
  for (const extensions of [undefined, null, 'x', {}, { [gasSponsoringName]: null }])
    t.equal(readAllowancePermit(extensions), undefined)
})
