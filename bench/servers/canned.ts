/** A JSON document of exactly so many bytes, ASCII. */
export function cannedJson(bytes: number): string {
  const item = '{"id":1234,"name":"a seller\'s answer","price":"0.10","tags":["one","two"]}'
  let json = '{"items":['
  while (json.length + item.length + 20 < bytes) json += `${item},`
  json += '0],"pad":"'
  return `${json}${'x'.repeat(bytes - json.length - 2)}"}`
}
