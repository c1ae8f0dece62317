/** A JSON document of exactly so many bytes, ASCII. */
export function cannedJson(bytes: number): string {
  const item = '{"id":1234,"name":"a seller\'s answer","price":"0.10","tags":["one","two"]}'
  let json = '{"items":['
  while (json.length + item.length + 20 < bytes) json += `${item},`
  json += '0],"pad":"'
  return `${json}${'x'.repeat(bytes - json.length - 2)}"}`
}

/** What the paid links of the benches cost and where the money goes: the same for Tollgate and for the peer. */
export const network = 'eip155:84532' as const
export const asset = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
export const payTo = '0x1111111111111111111111111111111111111111'
export const price = '0.10'
export const amountAtomic = '100000'
export const domain = { name: 'USDC', version: '2', chainId: 84532 } as const
