# The image for clusters: one static binary and nothing else. Tests build the same without a container engine: `make image`.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN RUSTFLAGS='-C target-feature=+crt-static' \
    cargo build --locked --release --target x86_64-unknown-linux-gnu -p quorate

FROM scratch
COPY --from=build /src/target/x86_64-unknown-linux-gnu/release/quorate /quorate
USER 65532:65532
ENTRYPOINT ["/quorate"]
