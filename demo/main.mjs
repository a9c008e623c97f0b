/** `npm run demo`: the shop, or with `regions` as first argument three regions. */
if (process.argv[2] === 'regions') await import('./regions/main.mjs')
else await import('./shop.mjs')
